"""Which shapes and decode batches the kernels are measured on."""

from benchmarks.gpu.inputs import decodes, ragged

SHAPES = {  # query heads, KV heads, head_dim
    "32 query heads, 8 KV heads, 128": (32, 8, 128),
    "16 query heads, 8 KV heads, 128": (16, 8, 128),
    "14 query heads, 2 KV heads, 64": (14, 2, 64),
    "32 query heads, 32 KV heads, 128": (32, 32, 128),
}
GRID = {
    "1x1k": decodes(1, 1024),
    "1x8k": decodes(1, 8192),
    "1x64k": decodes(1, 65536),
    "8x4k": decodes(8, 4096),
    "32x2k": decodes(32, 2048),
    "64x4k": decodes(64, 4096),
    "128x2k": decodes(128, 2048),
    "256x1k": decodes(256, 1024),
    "256x128..4096": ragged(256, 128, 4096),
}
OTHER_CELLS = {  # the first rule for sizes was made without them, on GRID alone
    "24x4k": decodes(24, 4096),
    "40x4k": decodes(40, 4096),
    "48x2k": decodes(48, 2048),
    "16x128..4096": ragged(16, 128, 4096),
    "100x128..4096": ragged(100, 128, 4096),
}
