"""Words that users of other engines search for, and the place that tells it here."""

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

# Of each page: what may be asked, and the section that has the answer ("": the page).
SOUGHT = {
    "notebooks/00_ten_minutes": {"paged attention": ""},
    "notebooks/01_contiguous_waste": {"fragmentation": ""},
    "notebooks/02_block_pool": {
        "block table": "",
        "refcount": "see-it-break-without-a-count",
        "reference count": "see-it-break-without-a-count",
    },
    "notebooks/03_prefix_hashing": {
        "duplicate blocks": "see-it-break-a-block-id-for-the-past",
        "automatic prefix caching": "",
    },
    "notebooks/04_cow_beam_search": {"copy on write": ""},
    "notebooks/A_continuous_batching": {
        "chunked prefill": "what-a-long-prompt-does-to-others"
    },
    "notebooks/B_preemption": {"kv offloading": "", "swap space": ""},
    "notebooks/C_tuning_the_kernel": {
        "fp8": "half-the-bytes",
        "kv cache dtype": "half-the-bytes",
    },
    "notebooks/D_the_fast_step": {
        "batch invariant": "the-same-text-in-any-company",
        "batch invariance": "the-same-text-in-any-company",
        "cuda graph": "",
        "cuda graphs": "",
    },
    "notebooks/E_speculation": {"speculative decoding": ""},
    "notebooks/H_many_gpus": {
        "custom all reduce": "",
        "data parallel": "",
        "disaggregated prefill": "",
        "tensor parallel": "",
        "tensor parallelism": "",
    },
    "minipaged/serving/README": {"gpu memory utilization": "what-one-should-know"},
}


def spellings(words: str) -> list[str]:
    """As in a text, as in a flag, and as in Python: the search compares letters."""
    return list(dict.fromkeys(words.replace(" ", sign) for sign in " -_"))


class SoughtWords(SphinxTransform):
    """The search knows these words, and shows their place first."""

    default_priority = 770  # after the anchors of all sections are known

    def apply(self, **kwargs) -> None:
        sought = SOUGHT.get(self.env.docname, {})
        sections = self.document.findall(nodes.section)
        there = {name for section in sections for name in section["ids"]}
        for section in sought.values():
            if section and section not in there:
                raise ValueError(f"{self.env.docname} has no section {section}")
        entries = [
            ("single", spelling, section, "main", None)
            for words, section in sought.items()
            for spelling in spellings(words)
        ]
        if entries:
            self.document += addnodes.index(entries=entries)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(SoughtWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
