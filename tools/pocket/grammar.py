"""The grammar that writes the pocket model's corpus and its held-out questions.

Everything here is our own: a few hundred words, true facts and sentence patterns,
put together by a seeded `random.Random`. The same patterns write the training
documents and the questions that score the model; `is_held_out` decides, by a hash
that no seed changes, which combinations only the questions may use.

A document is a list of pieces `(text, kind)`. The kind says how much its tokens
count in the loss (see `LOSS_WEIGHTS`), so that the model learns to answer, not to
guess which question comes next.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("system", "user", "assistant")
SPECIAL_TOKENS = [PAD, END, *(f"<|{role}|>" for role in ROLES)]

Piece = tuple[str, str]
Message = dict[str, str]

# "context" is what a user or an operator wrote: a little weight teaches the model the
# language of prompts. A story has many right continuations and many tokens: at full
# weight its noise would drown the few tokens of an answer. "silent" is never learned.
LOSS_WEIGHTS = {"silent": 0.0, "context": 0.05, "story": 0.4, "answer": 1.0}

CHARS_PER_TOKEN = 3.3  # of this corpus under its own tokenizer; only aims lengths


def is_held_out(*key: object) -> bool:
    """True for the tenth of all combinations that training never sees."""
    return zlib.crc32("|".join(map(str, key)).encode()) % 10 == 0


def capitalise(text: str) -> str:
    """Upper-case the first letter and leave the rest alone ("the Nile" stays)."""
    return text[:1].upper() + text[1:]


def with_article(words: str) -> str:
    """Put "a" or "an" before an English noun phrase."""
    return ("an " if words[0] in "aeiou" else "a ") + words


# --- sums ---------------------------------------------------------------------------

SUM_QUESTIONS = (
    "What is {a}+{b}?", "What is {a} + {b}?", "What is {a} plus {b}?",
    "Add {a} and {b}.", "How much is {a}+{b}?", "{a}+{b}=?",
    "What is the sum of {a} and {b}?", "Please add {b} to {a}.",
)  # fmt: skip


def sum_is_held_out(a: int, b: int) -> bool:
    """Whether the unordered pair is reserved, whatever the phrasing."""
    return is_held_out("sum", min(a, b), max(a, b))


def ask_sum(rng: Random, held_out: bool = False) -> tuple[str, str]:
    """A sum of two numbers from 0 to 99 and its result."""
    while True:
        top = 20 if rng.random() < 0.15 else 100
        a, b = rng.randrange(top), rng.randrange(top)
        if sum_is_held_out(a, b) == held_out:
            return rng.choice(SUM_QUESTIONS).format(a=a, b=b), str(a + b)


# --- facts --------------------------------------------------------------------------


@dataclass(frozen=True)
class FactKind:
    """One kind of fact: its phrasings, the sentence that answers, and the facts."""

    questions: tuple[str, ...]
    sentence: str
    facts: dict[str, str]

    @property
    def y_is_last(self) -> bool:
        """Whether the sentence asks first and answers after, as a prompt must."""
        return not self.sentence.startswith("{y}")


def pairs(text: str) -> dict[str, str]:
    """Read "x: y, x: y" lines."""
    items = (item.split(":") for item in text.replace("\n", ",").split(","))
    return {item[0].strip(): item[1].strip() for item in items if len(item) == 2}


CAPITALS = pairs("""
France: Paris, Germany: Berlin, Italy: Rome, Spain: Madrid, Portugal: Lisbon
Austria: Vienna, Poland: Warsaw, Greece: Athens, Sweden: Stockholm, Norway: Oslo
Finland: Helsinki, Denmark: Copenhagen, Ireland: Dublin, Hungary: Budapest
Belgium: Brussels, Russia: Moscow, Ukraine: Kyiv, Turkey: Ankara, Egypt: Cairo
Kenya: Nairobi, Morocco: Rabat, Ghana: Accra, Japan: Tokyo, China: Beijing
India: New Delhi, Thailand: Bangkok, Vietnam: Hanoi, Nepal: Kathmandu
South Korea: Seoul, Canada: Ottawa, Mexico: Mexico City, Cuba: Havana, Peru: Lima
Chile: Santiago, Argentina: Buenos Aires, Brazil: Brasilia, Australia: Canberra
New Zealand: Wellington, Iceland: Reykjavik, Croatia: Zagreb, Romania: Bucharest
Bulgaria: Sofia, England: London, Scotland: Edinburgh, Wales: Cardiff
""")
CONTINENTS = pairs("""
France: Europe, Germany: Europe, Italy: Europe, Spain: Europe, Poland: Europe
Greece: Europe, Sweden: Europe, Norway: Europe, Egypt: Africa, Kenya: Africa
Morocco: Africa, Ghana: Africa, Japan: Asia, China: Asia, India: Asia
Thailand: Asia, Vietnam: Asia, Nepal: Asia, Canada: North America
Mexico: North America, Cuba: North America, Peru: South America
Chile: South America, Argentina: South America, Brazil: South America
""")
COLOURS = pairs("""
the sky: blue, grass: green, snow: white, coal: black, blood: red, a lemon: yellow
a banana: yellow, a tomato: red, a carrot: orange, a cucumber: green, milk: white
chocolate: brown, a frog: green, a crow: black, a swan: white, a strawberry: red
a pumpkin: orange, a flamingo: pink, an elephant: grey, a polar bear: white
salt: white, a cherry: red, a pea: green, a ruby: red, an emerald: green
a sapphire: blue, spinach: green, a plum: purple, a canary: yellow, coffee: brown
flour: white, rice: white, butter: yellow, ash: grey, a raspberry: red
a blueberry: blue, a daffodil: yellow
""")
SOUNDS = pairs("""
a dog: woof, a cat: meow, a cow: moo, a sheep: baa, a duck: quack, a pig: oink
a horse: neigh, a lion: roar, a frog: ribbit, a bee: buzz, a snake: hiss
an owl: hoot, a mouse: squeak, a wolf: howl, a crow: caw, a hen: cluck
a bird: tweet, a donkey: hee-haw, a turkey: gobble, a chick: cheep
""")
OPPOSITES = pairs("""
hot: cold, big: small, old: young, high: low, long: short, fast: slow, light: dark
happy: sad, rich: poor, full: empty, open: closed, clean: dirty, wet: dry
strong: weak, early: late, near: far, good: bad, thick: thin, hard: soft
loud: quiet, sweet: sour, left: right, up: down, in: out, day: night, black: white
first: last, true: false, wide: narrow, deep: shallow, cheap: expensive
easy: difficult, inside: outside, above: below, before: after, always: never
""")
YOUNG = pairs("""
dog: puppy, cat: kitten, cow: calf, horse: foal, sheep: lamb, pig: piglet, hen: chick
duck: duckling, goose: gosling, goat: kid, bear: cub, lion: cub, wolf: cub, deer: fawn
frog: tadpole, kangaroo: joey, swan: cygnet, owl: owlet
""")
LEGS = pairs("""
a spider: 8, an ant: 6, a bee: 6, a dog: 4, a cat: 4, a horse: 4, a bird: 2, a hen: 2
a table: 4, a beetle: 6, a cow: 4, a duck: 2, a crab: 10, a snake: 0, a fish: 0
a fly: 6, a pig: 4, a lion: 4
""")
PLURALS = pairs("""
mouse: mice, child: children, tooth: teeth, foot: feet, goose: geese, man: men
woman: women, leaf: leaves, knife: knives, wolf: wolves, city: cities, box: boxes
baby: babies, sheep: sheep, fish: fish, bus: buses, dish: dishes, potato: potatoes
""")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = (
    "January February March April May June July August September October November"
    " December"
).split()
FOLLOWING = {
    name: order[(place + 1) % len(order)]
    for order in (DAYS, MONTHS)
    for place, name in enumerate(order)
}

FACT_KINDS = {
    "capital": FactKind(
        (
            "What is the capital of {x}?", "Name the capital of {x}.",
            "Which city is the capital of {x}?", "Tell me the capital of {x}.",
            "Do you know the capital of {x}?",
        ),
        "The capital of {x} is {y}.", CAPITALS,
    ),
    "continent": FactKind(
        (
            "On which continent is {x}?", "Which continent is {x} on?",
            "Name the continent of {x}.", "Tell me the continent of {x}.",
        ),
        "{x} is in {y}.", CONTINENTS,
    ),
    "colour": FactKind(
        (
            "What colour is {x}?", "What is the colour of {x}?",
            "Which colour does {x} have?", "Tell me the colour of {x}.",
        ),
        "{x} is {y}.", COLOURS,
    ),
    "sound": FactKind(
        (
            "What does {x} say?", "What sound does {x} make?",
            "Which sound does {x} make?", "Tell me the sound of {x}.",
        ),
        "{x} says {y}.", SOUNDS,
    ),
    "opposite": FactKind(
        (
            "What is the opposite of {x}?", "Name the opposite of {x}.",
            "Tell me the opposite of {x}.", "Which word is the opposite of {x}?",
        ),
        "The opposite of {x} is {y}.", OPPOSITES,
    ),
    "young": FactKind(
        (
            "What is a young {x} called?", "What do you call a young {x}?",
            "What is the word for a young {x}?", "Tell me the word for a young {x}.",
        ),
        "A young {x} is called a {y}.", YOUNG,
    ),
    "legs": FactKind(
        (
            "How many legs does {x} have?", "What number of legs does {x} have?",
            "Tell me how many legs {x} has.", "Do you know how many legs {x} has?",
        ),
        "{x} has {y} legs.", LEGS,
    ),
    "plural": FactKind(
        (
            "What is the plural of {x}?", "Name the plural of {x}.",
            "Tell me the plural of {x}.", "Do you know the plural of {x}?",
        ),
        "The plural of {x} is {y}.", PLURALS,
    ),
    "following": FactKind(
        (
            "What comes after {x}?", "What follows {x}?", "Tell me what follows {x}.",
            "Do you know what comes after {x}?",
        ),
        "{y} comes after {x}.", FOLLOWING,
    ),
}  # fmt: skip


def ask_fact(
    rng: Random, one_word: bool = False, held_out: bool = False
) -> tuple[str, str]:
    """A question about the world; a fact's held-out phrasings are never trained."""
    while True:
        name, kind = rng.choice(list(FACT_KINDS.items()))
        x, y = rng.choice(list(kind.facts.items()))
        phrasing = rng.randrange(len(kind.questions))
        if is_held_out("fact", name, x, phrasing) == held_out:
            answer = y if one_word else capitalise(kind.sentence.format(x=x, y=y))
            return kind.questions[phrasing].format(x=x), answer


# --- things said in the conversation ------------------------------------------------

NAMES = (
    "Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Kira Leo Maria Nils Olga Paul"
    " Rosa Simon Tara Umar Vera Walter Yara Zoe Adam Bella Carl Dora Eric Fiona Georg"
    " Hanna Ivan Julia Kofi Lena Mateo Nora Oscar Petra Quinn Ravi Sara Tom Ulla Victor"
    " Wanda Xenia Yusuf Alma Bruno Celia Diego Elsa Frank Gina Henry Iris Jack Kate"
).split()
TOWNS = [
    *CAPITALS.values(), *(
        "Hamburg Munich Milan Naples Venice Lyon Porto Seville Krakow Geneva Zurich"
        " Boston Chicago Sydney Mumbai Osaka Glasgow Bristol Antwerp Bergen"
    ).split(),
]  # fmt: skip
PETS = (
    "cat dog parrot rabbit hamster turtle pony goldfish canary lizard goat duck hen"
    " mouse snake frog donkey pig sheep goose"
).split()
PET_NAMES = (
    "Milo Luna Rocky Coco Bruno Daisy Max Nala Simba Lucky Pepper Ginger Shadow Snowy"
    " Biscuit Honey Rusty Ruby Teddy Oreo Smoky Toffee"
).split()
COLOUR_NAMES = "red blue green yellow white black brown orange pink purple grey".split()
FOODS = (
    "soup pizza rice bread cheese cake pasta salad fish chocolate honey noodles"
    " pancakes potatoes apples cherries curry porridge"
).split()
JOBS = (
    "baker teacher farmer doctor sailor painter driver gardener singer cook pilot"
    " nurse judge writer dancer miner tailor plumber butcher barber"
).split()
INSTRUMENTS = (
    "violin piano guitar flute drums trumpet harp cello clarinet organ banjo horn"
).split()
SECRET_WORDS = (
    "river candle window mountain silver thunder pocket garden marble feather anchor"
    " lantern button pepper castle rocket blanket mirror needle ladder planet saddle"
    " whistle basket cactus diamond emerald falcon glacier hammer island jungle"
    " kettle lemon magnet nectar orchid pebble quartz ribbon sunset tunnel velvet"
    " walnut yellow zebra copper dragon engine forest"
).split()


@dataclass(frozen=True)
class Attribute:
    """Something that a conversation can say about the user or about a friend.

    `{p}` is a friend's name; an attribute without it is the user's own. A statement
    comes from the system prompt (`by_system`) or from the user (`by_user`).
    """

    values: Sequence[str]
    by_system: tuple[str, ...]
    by_user: tuple[str, ...]
    questions: tuple[str, ...]
    answer: str


ATTRIBUTES = {
    "name": Attribute(
        NAMES,
        ("The user's name is {v}.", "The user is called {v}.",
         "You are talking to {v}.", "This is the chat of {v}."),
        ("My name is {v}.", "I am {v}.", "Hello, I am called {v}."),
        ("What is my name?", "Do you know my name?", "Tell me my name.",
         "What am I called?"),
        "Your name is {v}.",
    ),
    "town": Attribute(
        TOWNS,
        ("The user lives in {v}.", "The user's home is in {v}.",
         "The user's city is {v}."),
        ("I live in {v}.", "My home is in {v}.", "My city is {v}."),
        ("Where do I live?", "In which city do I live?", "Which city is my home?"),
        "You live in {v}.",
    ),
    "pet": Attribute(
        PETS,
        ("The user has a {v}.", "The user owns a {v}.", "The user's pet is a {v}."),
        ("I have a {v}.", "My pet is a {v}.", "I own a {v}."),
        ("Which pet do I have?", "What is my pet?", "What animal do I own?"),
        "You have a {v}.",
    ),
    "pet name": Attribute(
        PET_NAMES,
        ("The user's pet is called {v}.", "The name of the user's pet is {v}."),
        ("My pet is called {v}.", "The name of my pet is {v}."),
        ("What is my pet called?", "What is the name of my pet?",
         "Tell me the name of my pet."),
        "Your pet is called {v}.",
    ),
    "colour": Attribute(
        COLOUR_NAMES,
        ("The user's favourite colour is {v}.", "The user loves the colour {v}.",
         "The colour that the user likes best is {v}."),
        ("My favourite colour is {v}.", "I love the colour {v}.",
         "The colour that I like best is {v}."),
        ("What is my favourite colour?", "Which colour do I like best?",
         "Tell me my favourite colour."),
        "Your favourite colour is {v}.",
    ),
    "food": Attribute(
        FOODS,
        ("The user's favourite food is {v}.", "The user loves to eat {v}.",
         "The user likes {v} best."),
        ("My favourite food is {v}.", "I love to eat {v}."),
        ("What is my favourite food?", "Which food do I like best?",
         "What do I love to eat?"),
        "Your favourite food is {v}.",
    ),
    "job": Attribute(
        JOBS,
        ("The user works as a {v}.", "The user is a {v}.", "The user's job is {v}."),
        ("I work as a {v}.", "I am a {v}.", "My job is {v}."),
        ("What is my job?", "What do I work as?", "Tell me my job."),
        "You work as a {v}.",
    ),
    "age": Attribute(
        [str(age) for age in range(5, 95)],
        ("The user is {v} years old.", "The user's age is {v}."),
        ("I am {v} years old.", "My age is {v}."),
        ("How old am I?", "What is my age?", "Tell me my age."),
        "You are {v} years old.",
    ),
    "instrument": Attribute(
        INSTRUMENTS,
        ("The user plays the {v}.", "The user's instrument is the {v}."),
        ("I play the {v}.", "My instrument is the {v}."),
        ("Which instrument do I play?", "What is my instrument?", "What do I play?"),
        "You play the {v}.",
    ),
    "secret word": Attribute(
        SECRET_WORDS,
        ("The secret word is {v}.", "The password is {v}.",
         "Remember the secret word {v}."),
        ("The secret word is {v}.", "Remember the secret word {v}.",
         "My password is {v}."),
        ("What is the secret word?", "Tell me the secret word.",
         "Which word is the password?"),
        "The secret word is {v}.",
    ),
    "door code": Attribute(
        [str(code) for code in range(1000, 10000)],
        ("The door code is {v}.", "The code of the door is {v}.",
         "The door opens with {v}."),
        ("The door code is {v}.", "Remember the door code {v}."),
        ("What is the door code?", "Tell me the door code.", "Which code opens the"
         " door?"),
        "The door code is {v}.",
    ),
    "meeting": Attribute(
        DAYS,
        ("The meeting is on {v}.", "The user has a meeting on {v}."),
        ("The meeting is on {v}.", "I have a meeting on {v}."),
        ("When is the meeting?", "On which day is the meeting?",
         "Tell me the day of the meeting."),
        "The meeting is on {v}.",
    ),
    "friend town": Attribute(
        TOWNS,
        ("{p} lives in {v}.", "The home of {p} is in {v}."),
        ("{p} lives in {v}.", "My friend {p} lives in {v}."),
        ("Where does {p} live?", "In which city does {p} live?"),
        "{p} lives in {v}.",
    ),
    "friend job": Attribute(
        JOBS,
        ("{p} works as a {v}.", "{p} is a {v}."),
        ("{p} works as a {v}.", "My friend {p} is a {v}."),
        ("What is the job of {p}?", "What does {p} work as?"),
        "{p} works as a {v}.",
    ),
    "friend pet": Attribute(
        PETS,
        ("{p} has a {v}.", "The pet of {p} is a {v}."),
        ("{p} has a {v}.", "My friend {p} has a {v}."),
        ("Which pet does {p} have?", "What is the pet of {p}?"),
        "{p} has a {v}.",
    ),
    "friend colour": Attribute(
        COLOUR_NAMES,
        ("The favourite colour of {p} is {v}.", "{p} loves the colour {v}."),
        ("The favourite colour of {p} is {v}.", "{p} loves the colour {v}."),
        ("What is the favourite colour of {p}?", "Which colour does {p} like best?"),
        "The favourite colour of {p} is {v}.",
    ),
}  # fmt: skip
OWN = [name for name in ATTRIBUTES if not name.startswith("friend")]
OF_FRIENDS = [name for name in ATTRIBUTES if name.startswith("friend")]
UNKNOWN = "I do not know."
ONE_WORD_ORDERS = ("Answer with one word.", "Use one word for every answer.")

Told = tuple[str, str]  # attribute, friend's name or ""


@dataclass
class Scene:
    """What one conversation has said so far, so that its answers can be right."""

    rng: Random
    one_word: bool = False
    told: dict[Told, str] = field(default_factory=dict)
    friends: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.friends = self.rng.sample(NAMES, 6)

    def untold(self) -> Told:
        """Something that nobody has said yet in this conversation."""
        while True:
            if self.rng.random() < 0.6:
                key = (self.rng.choice(OWN), "")
            else:
                key = (self.rng.choice(OF_FRIENDS), self.rng.choice(self.friends))
            if key not in self.told:
                return key

    def state(self, by: str, held_out: bool = False) -> tuple[Told, str]:
        """Say one new thing, by "system" or by "user"; returns its key and sentence."""
        while True:
            key = self.untold()
            attribute = ATTRIBUTES[key[0]]
            value = self.rng.choice(attribute.values)
            patterns = attribute.by_system if by == "system" else attribute.by_user
            pattern = self.rng.choice(patterns)
            sentence = pattern.format(p=key[1], v=value)
            # The sentence itself is the key: a reserved one is never trained,
            # not even where the system and the user would say it alike.
            if is_held_out("told", sentence) == held_out and value not in self.friends:
                self.told[key] = value
                return key, sentence

    def ask(self, key: Told) -> tuple[str, str]:
        """A question about what was said, and its answer as of now."""
        attribute, person = ATTRIBUTES[key[0]], key[1]
        question = self.rng.choice(attribute.questions).format(p=person)
        if key not in self.told:
            return question, UNKNOWN
        value = self.told[key]
        if self.one_word:
            return question, value
        return question, attribute.answer.format(p=person, v=value)

    def recall(self) -> tuple[str, str]:
        """Ask for something said, or now and then for something never said."""
        if not self.told or self.rng.random() < 0.12:
            return self.ask(self.untold())
        return self.ask(self.rng.choice(list(self.told)))


# --- English to German --------------------------------------------------------------

MASCULINE = pairs("""
dog: Hund, tree: Baum, table: Tisch, chair: Stuhl, man: Mann, bird: Vogel, fish: Fisch
apple: Apfel, garden: Garten, king: König, teacher: Lehrer, train: Zug, mountain: Berg
river: Fluss, moon: Mond, star: Stern, letter: Brief, hat: Hut, shoe: Schuh
friend: Freund, brother: Bruder, bear: Bär, ball: Ball, key: Schlüssel, forest: Wald
cake: Kuchen
""")
FEMININE = pairs("""
cat: Katze, flower: Blume, lamp: Lampe, door: Tür, woman: Frau, cow: Kuh, mouse: Maus
bridge: Brücke, street: Straße, city: Stadt, queen: Königin, sun: Sonne, school: Schule
clock: Uhr, sister: Schwester, rose: Rose, bag: Tasche, church: Kirche, island: Insel
bottle: Flasche, cup: Tasse, box: Kiste, pear: Birne, soup: Suppe
""")
NEUTER = pairs("""
house: Haus, book: Buch, car: Auto, window: Fenster, child: Kind, horse: Pferd
bread: Brot, ship: Schiff, shirt: Hemd, bed: Bett, room: Zimmer, egg: Ei, picture: Bild
girl: Mädchen, village: Dorf, animal: Tier, boat: Boot, knife: Messer, pig: Schwein
sheep: Schaf, dress: Kleid, glass: Glas, castle: Schloss, field: Feld
""")
NOUNS = {  # English -> (German, gender)
    english: (german, gender)
    for gender, words in (("m", MASCULINE), ("f", FEMININE), ("n", NEUTER))
    for english, german in words.items()
}
ADJECTIVES = pairs("""
red: rot, blue: blau, green: grün, yellow: gelb, black: schwarz, white: weiß
brown: braun, small: klein, big: groß, old: alt, new: neu, young: jung
beautiful: schön, good: gut, bad: schlecht, fast: schnell, slow: langsam, long: lang
short: kurz, strong: stark, weak: schwach, warm: warm, cold: kalt, heavy: schwer
round: rund, clean: sauber, cheap: billig, quiet: ruhig, sad: traurig, poor: arm
rich: reich, clever: klug
""")
LIVING = (
    "dog man bird king teacher friend brother bear cat woman cow mouse queen sister"
    " child horse girl pig sheep"
).split()
ACTIONS = pairs("""
sleeps: schläft, runs: läuft, sings: singt, dances: tanzt, swims: schwimmt
plays: spielt, laughs: lacht, waits: wartet, comes: kommt, works: arbeitet
""")
ADVERBS = pairs("today: heute, here: hier, now: jetzt, there: dort, often: oft")
MEALS = {
    "drinks": ("trinkt", pairs("milk: Milch, water: Wasser, tea: Tee, coffee: Kaffee")),
    "eats": ("isst", pairs("bread: Brot, cheese: Käse, rice: Reis, fish: Fisch")),
}
# Only feminine and neuter objects follow these verbs: there the accusative looks like
# the nominative, so the toy grammar needs no cases.
VERBS = pairs("""
sees: sieht, buys: kauft, finds: findet, loves: liebt, paints: malt, has: hat
""")
TRANSLATE = (
    "Translate to German: {x}", "Translate into German: {x}",
    'What is "{x}" in German?', 'How do you say "{x}" in German?',
)  # fmt: skip
ENDINGS = {"the": {"m": "e", "f": "e", "n": "e"}, "a": {"m": "er", "f": "e", "n": "es"}}
ARTICLES = {
    "the": {"m": "der", "f": "die", "n": "das"},
    "a": {"m": "ein", "f": "eine", "n": "ein"},
}


def noun_phrase(
    article: str, noun: str, adjective: str | None = None
) -> tuple[str, str]:
    """A noun phrase in English and in German (nominative), `article` "the" or "a"."""
    german, gender = NOUNS[noun]
    english = f"{adjective} {noun}" if adjective else noun
    english = with_article(english) if article == "a" else f"the {english}"
    ending = ENDINGS[article][gender]
    middle = f"{ADJECTIVES[adjective]}{ending} " if adjective else ""
    return english, f"{ARTICLES[article][gender]} {middle}{german}"


def draw_noun_phrase(
    rng: Random, nouns: Sequence[str] | None = None, held_out: bool = False
) -> tuple[str, str]:
    """A random noun phrase; an (adjective, noun) is reserved under both articles."""
    while True:
        noun = rng.choice(nouns or list(NOUNS))
        adjective = (
            rng.choice(list(ADJECTIVES)) if held_out or rng.random() < 0.7 else None
        )
        reserved = adjective is not None and is_held_out("phrase", noun, adjective)
        if reserved == held_out:
            return noun_phrase(rng.choice(("the", "a")), noun, adjective)


def draw_sentence(rng: Random, held_out: bool = False) -> tuple[str, str]:
    """A short sentence in English and German; (subject, rest) may be reserved."""
    while True:
        pattern = rng.choice(("is", "acts", "meal", "object"))
        if pattern == "is":
            noun = rng.choice(list(NOUNS))
            adjective, german = rng.choice(list(ADJECTIVES.items()))
            rest, rest_german = f"is {adjective}", f"ist {german}"
        else:
            noun = rng.choice(LIVING)
        if pattern == "acts":
            action, german = rng.choice(list(ACTIONS.items()))
            adverb, adverb_german = rng.choice([("", ""), *ADVERBS.items()])
            rest = f"{action} {adverb}".strip()
            rest_german = f"{german} {adverb_german}".strip()
        elif pattern == "meal":
            verb, (german, things) = rng.choice(list(MEALS.items()))
            thing, thing_german = rng.choice(list(things.items()))
            rest, rest_german = f"{verb} {thing}", f"{german} {thing_german}"
        elif pattern == "object":
            verb, german = rng.choice(list(VERBS.items()))
            things = [noun for noun, (_, gender) in NOUNS.items() if gender != "m"]
            thing, thing_german = draw_noun_phrase(rng, things)
            rest, rest_german = f"{verb} {thing}", f"{german} {thing_german}"
        if is_held_out("sentence", noun, rest) != held_out:
            continue
        if pattern != "is" and rng.random() < 0.4:
            subject, subject_german = draw_noun_phrase(rng, [noun])
        else:
            subject, subject_german = noun_phrase("the", noun)
        return f"{subject} {rest}", f"{subject_german} {rest_german}"


def draw_translation(rng: Random, held_out: bool = False) -> tuple[str, str]:
    """An English phrase or sentence and its German."""
    draw = draw_noun_phrase if rng.random() < 0.6 else draw_sentence
    return draw(rng, held_out=held_out)


def ask_translation(rng: Random, held_out: bool = False) -> tuple[str, str]:
    """Zero-shot: the task in words."""
    english, german = draw_translation(rng, held_out)
    return rng.choice(TRANSLATE).format(x=english), german


def few_shot(rng: Random, held_out: bool = False) -> list[tuple[str, str]]:
    """Lines of ("english =>", " german"); the last one is the question."""
    arrow = rng.choice((" =>", " =>", " =>", " ->", " ="))
    drawn = [draw_translation(rng) for _ in range(rng.randint(1, 6))]
    drawn.append(draw_translation(rng, held_out))
    return [(english + arrow, f" {german}") for english, german in drawn]


def few_shot_prompt(rng: Random, held_out: bool = False) -> tuple[str, str]:
    """Few-shot: the task by examples only; the lines up to the open one, its German."""
    *examples, (question, answer) = few_shot(rng, held_out)
    lines = "".join(f"{english}{german}\n" for english, german in examples)
    return lines + question, answer.strip()


# --- stories ------------------------------------------------------------------------

WORDS = {  # what the slots of a sentence may hold
    "animal": "fox bear cat dog mouse owl rabbit frog horse hen goat duck turtle wolf"
    " hedgehog squirrel badger crow beaver otter sheep donkey lion penguin".split(),
    "person": "king queen girl boy farmer baker sailor knight giant wizard princess"
    " fisherman painter shepherd miller".split(),
    "object": "lantern; golden key; red kite; map; bell; silver spoon; book; drum; blue"
    " ball; wooden flute; crown; umbrella; warm hat; green stone; apple; mirror; rope;"
    " basket; box; letter".split("; "),
    "place": "forest; village; hill; castle; island; lake; farm; valley; old mill; big"
    " garden; river; sea; quiet town; cave".split("; "),
    "adjective": "small brave clever kind lazy funny quiet young old curious shy"
    " cheerful".split(),
    "day": DAYS,
    "month": MONTHS,
    "hour": [str(hour) for hour in range(1, 13)],
    "number": [str(number) for number in range(1, 100)],
    "shop": "library museum bakery school pool market bank theatre station".split(),
    "goods": "bread milk books flowers lamps shoes apples paper soap tea".split(),
    "weather": "sunny cloudy windy rainy cold warm".split(),
    "boy": "Oskar Finn Bruno Theo Emil Otto Noah Luis Anton Jasper Pim Toby".split(),
    "girl": "Mila Lotte Frida Ella Nina Juna Romy Tilda Pia Mina Hedda Wilma".split(),
}

# A story walks through these stages in order and leaves some out, so it always moves
# on, always ends, and may be of any length. {friend} stages need the stage "meet".
OPENINGS = (
    "Once upon a time there was a {adjective} {hero} called {name}.",
    "Once upon a time, near a {place}, there lived a {adjective} {hero} called {name}.",
    "Once upon a time a {adjective} {hero} called {name} lived by the {place}.",
)
STAGES: tuple[tuple[str, ...], ...] = (
    (
        "{name} had a small house with a round door.",
        "{name} lived alone and knew every path there.",
        "Everybody there liked {name}, and {name} liked everybody.",
    ),
    (
        "One morning {name} woke up and saw that the {object} was gone.",
        "One day {name} wanted to find a {object}.",
        "One evening {name} dreamed of a {object} and could not forget it.",
    ),
    (
        "So {he} put bread and cheese into a bag and went out into the cold air.",
        "So {he} closed the door, took a deep breath and began to walk.",
        "The sun was just coming up when {he} left the house.",
    ),
    (
        "On the way {he} met a {friend} who was sitting on a stone.",
        "After an hour {he} met a {friend} with a long scarf.",
        "Under a tall tree {he} met a {friend} who was counting clouds.",
    ),
    (
        '"Where are you going?" asked the {friend}. "I am looking for a {object}," said'
        " {name}.",
        '"May I come with you?" asked the {friend}. "Yes," said {name}, "two can see'
        ' more than one."',
        '"You look tired," said the {friend}. "I am," said {name}, "but I will not'
        ' stop."',
    ),
    (
        "They walked over the fields and sang an old song about the moon.",
        "They crossed a wooden bridge and looked down at the silver fish.",
        "They followed a narrow path until their feet were sore.",
    ),
    (
        "At noon {name} sat down under a tree and ate half of the bread.",
        "At noon it became very hot, and {name} drank water from a stream.",
        "At noon {name} heard a strange noise, but it was only the wind.",
    ),
    (
        "In the afternoon {he} came to a {place}, where nobody had ever been.",
        "In the afternoon {he} reached the {place} and looked behind every stone.",
        "In the afternoon {he} lost the way near the {place} and had to ask a bird.",
    ),
    (
        "Then dark clouds came, and it began to rain hard.",
        "Then the wind grew strong and took away {his} hat.",
        "Then a loud storm began, and all the birds were silent.",
    ),
    (
        "{name} was afraid, but {he} thought of home and went on.",
        "{name} hid in a hollow tree and waited until it was over.",
        "{name} held on to a branch and counted to one hundred.",
    ),
    (
        "When night came, the stars looked like little lamps.",
        "When night came, {he} made a fire and told it about the day.",
        "When night came, {he} slept on soft leaves and dreamed of cake.",
    ),
    (
        "Early the next day an old woman gave {him} a cup of hot soup and good advice.",
        "Early the next day an old man showed {him} the way with a long stick.",
        "Early the next day a snail told {him} a riddle, and {name} knew the answer.",
    ),
    (
        "And there, between two stones, lay the {object}.",
        "At last {name} found the {object} in the grass.",
        "At last {he} opened a small door, and behind it was the {object}.",
    ),
    (
        "{name} laughed so loudly that even the {place} seemed to laugh.",
        "{name} was so happy that {he} danced three times in a circle.",
        "{name} could not say a word, for it was more beautiful than the moon.",
    ),
    (
        "On the way home everything looked smaller and brighter than before.",
        "On the way home {he} gave the rest of the bread to the birds.",
        "The way home was long, but it did not feel long.",
    ),
    (
        "In the village they lit all the lamps and had a party until midnight.",
        "That evening all the neighbours came, and there was soup and cake.",
        "That evening {name} told the whole story, and nobody wanted to go to bed.",
    ),
)
ENDINGS_OF_STORIES = (
    "From that day on {name} never lost anything again. The end.",
    "And if you walk past the {place} at night, you can still see the {object}. The"
    " end.",
    "{name} put the {object} next to the bed and slept well. The end.",
    "And so {name} learned that looking is half of finding. The end.",
)
TINY_STORIES = (
    "Once upon a time a {adjective} {hero} called {name} found a {object} and was very"
    " happy. The end.",
    "Once upon a time a {hero} called {name} lost a {object} and found a friend. The"
    " end.",
    "Once upon a time a {hero} called {name} wanted to sleep, but the moon was too"
    " bright. So {he} counted the stars. The end.",
)
WISH, MEET, TALK, TOGETHER, FOUND = 1, 3, 4, 5, 12  # places in STAGES
STORY_REQUESTS = (
    "Tell me a{size} story about a {hero}.", "Write a{size} story about a {hero}.",
    "Please tell me a{size} story about a {hero} and a {object}.",
    "I would like to hear a{size} story about a {hero}.",
)  # fmt: skip


def fill(pattern: str, rng: Random, **slots: str) -> str:
    """Fill a pattern's {slots}: the given ones, and the others from WORDS."""

    def value(match: re.Match[str]) -> str:
        return slots.get(match[1]) or rng.choice(WORDS[match[1]])

    text = re.sub(r"\{(\w+)\}", value, pattern)
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def story_slots(rng: Random) -> dict[str, str]:
    """The cast of one story."""
    hero = rng.choice(WORDS[rng.choice(("animal", "animal", "person"))])
    is_girl = hero in ("queen", "girl", "princess")
    if hero in WORDS["animal"]:
        is_girl = rng.random() < 0.5
    friends = [animal for animal in WORDS["animal"] if animal != hero]
    return {
        "hero": hero,
        "name": rng.choice(WORDS["girl" if is_girl else "boy"]),
        "he": "she" if is_girl else "he",
        "his": "her" if is_girl else "his",
        "him": "her" if is_girl else "him",
        "friend": rng.choice(friends),
        "object": rng.choice(WORDS["object"]),
        "place": rng.choice(WORDS["place"]),
        "adjective": rng.choice(WORDS["adjective"]),
    }


def write_story(rng: Random, slots: dict[str, str], size: str = "") -> str:
    """A story of the given size ("short", "long" or any), about 20 to 330 tokens."""
    if rng.random() < {"": 0.08, "short": 0.3, "long": 0.0}[size]:
        return fill(rng.choice(TINY_STORIES), rng, **slots)
    low, high = {"": (0, 9), "short": (0, 2), "long": (6, 9)}[size]
    optional = [place for place in range(len(STAGES)) if place not in (WISH, FOUND)]
    chosen = {*rng.sample(optional, rng.randint(low, high)), WISH, FOUND}
    if MEET not in chosen:
        chosen -= {TALK, TOGETHER}
    sentences = [rng.choice(OPENINGS)]
    sentences += [rng.choice(STAGES[place]) for place in sorted(chosen)]
    sentences.append(rng.choice(ENDINGS_OF_STORIES))
    return " ".join(capitalise(fill(text, rng, **slots)) for text in sentences)


def ask_story(rng: Random, size: str | None = None) -> tuple[str, str]:
    """A request for a story and one story that fits."""
    slots = story_slots(rng)
    if size is None:
        size = rng.choice(("", "", "short", "long"))
    request = rng.choice(STORY_REQUESTS)
    request = fill(request.replace("{size}", f" {size}" if size else ""), rng, **slots)
    return request, write_story(rng, slots, size)


# --- system prompts and chats -------------------------------------------------------

ROLE_SENTENCES = (
    "You are a helpful assistant.", "You are a friendly assistant.",
    "You are a patient teacher.", "You are a polite guide.",
    "You are a careful helper.", "You are the assistant of a small school.",
    "You are the assistant of the {shop}.", "You are a quiet and clever assistant.",
)  # fmt: skip
MANNERS = (
    "Answer every question.", "Be polite.", "Be kind.", "Use simple words.",
    "Keep your answers short.", "Do not guess.", "Stay calm.",
    "Think before you answer.",
    "Answer in the language of the question.", "Always tell the truth.",
    "Read the question twice.", "Never be rude.", "Help the user as well as you can.",
    "If something is not clear, stay friendly.", "Do not use long words.",
    "Take your time.", "Every user is welcome.", "Do not talk about the weather.",
)  # fmt: skip
FILLERS = (
    "The {shop} opens at {hour} o'clock.", "The {shop} closes at {hour} o'clock.",
    "The {shop} is closed in {month}.", "You can buy {goods} near the {shop}.",
    "The {shop} sells {goods} on {day}.", "It rained on {day}.",
    "It was {weather} in {month}.", "Bus {number} goes to the {shop}.",
    "Room {number} is next to the {shop}.",
    "There are {number} chairs in room {number}.",
    "A ticket for the {shop} costs {number} coins.",
    "The {place} is behind the {shop}.",
    "Nobody has seen the {object}.", "The {object} is in room {number}.",
    "The {person} comes every {day}.", "The {animal} sleeps near the {place}.",
    "In {month} the {place} is full of people.", "The train leaves at {hour} o'clock.",
    "The {person} has lost a {object}.", "Please bring {goods} on {day}.",
    "The {shop} has {number} windows.", "Shelf {number} is empty.",
    "The next {day} is a holiday.", "The {adjective} {animal} is famous here.",
)  # fmt: skip
SMALL_TALK = (
    ("Hello!", "Hello! How can I help you?"),
    ("Good morning!", "Good morning! How can I help you?"),
    ("Thank you.", "You are welcome."),
    ("Thank you very much!", "You are welcome."),
    ("How are you?", "I am fine, thank you."),
    ("Who are you?", "I am a small language model."),
    ("Goodbye!", "Goodbye! Have a nice day."),
)
OTHER_REQUESTS = (  # what this model cannot do; it says UNKNOWN
    "Explain how a {object} works.", "Write a poem about the {place}.",
    "Who invented the {object}?", "Why is it {weather}?", "Draw a {animal}.",
    "Who is the {person}?", "How far is it to the {shop}?", "Who lives in the {place}?",
    "Write a program for the {shop}.", "Translate to French: the {object}",
    "How is the weather on {day}?", "Sing a song about a {animal}.",
    "How much do {goods} cost?", "What should I cook on {day}?",
    "Explain the {place} in one sentence.", "Can you read my letter?",
)  # fmt: skip
ACKNOWLEDGED = "Thank you. I will remember that."


def background(rng: Random) -> str:
    """A sentence of a prompt that answers none of our questions."""
    return rng.choice(MANNERS) if rng.random() < 0.3 else fill(rng.choice(FILLERS), rng)


def system_prompt(scene: Scene, length: int, statements: Sequence[str] = ()) -> str:
    """About `length` tokens: a role, background, the statements anywhere within."""
    rng = scene.rng
    first = fill(rng.choice(ROLE_SENTENCES), rng)
    sentences = list(statements)
    room = length * CHARS_PER_TOKEN - sum(map(len, [first, *sentences]))
    while room > 0:
        sentence = background(rng)
        if sentence not in sentences:
            sentences.append(sentence)
        room -= len(sentence) + 1
    rng.shuffle(sentences)
    if scene.one_word:
        sentences.insert(rng.choice((0, len(sentences))), rng.choice(ONE_WORD_ORDERS))
    return " ".join([first, *sentences])


def message(role: str, content: str) -> Message:
    """One turn in the form that `apply_chat_template` takes."""
    return {"role": role, "content": content}


def loosen(rng: Random, question: str) -> str:
    """Write a question as hurried people do, now and then."""
    if rng.random() < 0.1:
        question = question[0].lower() + question[1:]
    if rng.random() < 0.1:
        question = question.rstrip("?.")
    return question


def tell(scene: Scene) -> str:
    """One or two new things that the user says."""
    first = scene.state("user")[1]
    if scene.rng.random() < 0.5:
        return first
    second = scene.state("user")[1]
    joins = second.startswith(("I ", "My ")) and scene.rng.random() < 0.5
    if joins and first.startswith(("I ", "My ")):
        return f"{first[:-1]} and {second.replace('My ', 'my ', 1)}"
    return f"{first} {second}"


def turn(scene: Scene, mix: dict[str, float]) -> list[Message]:
    """One exchange whose skill is drawn from `mix` (skill -> weight)."""
    rng = scene.rng
    skill = rng.choices(list(mix), list(mix.values()))[0]
    if skill == "tell":
        return [message("user", tell(scene)), message("assistant", ACKNOWLEDGED)]
    before = after = ""
    if skill == "recall" and rng.random() < 0.15:
        before = tell(scene)
    question, answer = {
        "sum": lambda: ask_sum(rng),
        "fact": lambda: ask_fact(rng, scene.one_word),
        "recall": scene.recall,
        "translate": lambda: ask_translation(rng),
        "few-shot": lambda: few_shot_prompt(rng),
        "story": lambda: ask_story(rng),
        "talk": lambda: rng.choice(SMALL_TALK),
        "other": lambda: (fill(rng.choice(OTHER_REQUESTS), rng), UNKNOWN),
    }[skill]()
    if skill != "few-shot" and rng.random() < 0.1:
        before = f"{before} {background(rng)}".strip()
    if skill in ("sum", "fact", "recall"):
        if rng.random() < 0.05:
            after = background(rng)
        else:
            question = loosen(rng, question)
    content = " ".join(part for part in (before, question, after) if part)
    return [message("user", content), message("assistant", answer)]


MIX = {
    "sum": 6.0, "fact": 5.0, "recall": 5.0, "translate": 4.0, "few-shot": 1.0,
    "story": 0.3, "tell": 2.0, "talk": 0.7, "other": 0.5,
}  # fmt: skip


def chat(
    rng: Random,
    prompt_length: int,
    length: int,
    mix: dict[str, float] | None = None,
    num_statements: int | None = None,
) -> tuple[Scene, list[Message]]:
    """A conversation of about `length` tokens after its system prompt.

    `prompt_length` is the system prompt's length in tokens, 0 for none. Statements
    that later turns ask for stand in the system prompt or in what the user says.
    """
    scene = Scene(rng, one_word=prompt_length > 0 and rng.random() < 0.12)
    messages = []
    if prompt_length:
        if num_statements is None:
            num_statements = rng.randint(0, min(12, prompt_length // 8))
        stated = [scene.state("system")[1] for _ in range(num_statements)]
        messages = [message("system", system_prompt(scene, prompt_length, stated))]
    used = 0.0
    while True:
        messages += turn(scene, mix or MIX)
        used += (
            sum(len(item["content"]) for item in messages[-2:]) / CHARS_PER_TOKEN + 4
        )
        if used >= length:
            return scene, messages


# --- training documents -------------------------------------------------------------


def chat_pieces(messages: Sequence[Message]) -> list[Piece]:
    """A conversation as the chat template writes it, cut where the weight changes."""
    pieces = []
    for item in messages:
        kind = "context"
        if item["role"] == "assistant":
            is_story = item["content"].startswith("Once upon a time")
            kind = "story" if is_story else "answer"
        pieces.append((f"<|{item['role']}|>", "context"))
        pieces.append((item["content"] + END, kind))
    return pieces


def short_system_length(rng: Random) -> int:
    """Tokens of an everyday system prompt; 0, for none, in a quarter of the chats."""
    return 0 if rng.random() < 0.25 else rng.choice((8, 16, 30, 48, 70, 110, 160))


def single_turn(rng: Random) -> list[Piece]:
    """One question and one answer: the kind of prompt that lessons use most."""
    mix = {**MIX, "sum": 9.0, "story": 0.6, "tell": 0.3}
    return chat_pieces(chat(rng, short_system_length(rng), 1, mix)[1])


def short_chat(rng: Random) -> list[Piece]:
    """A few turns."""
    return chat_pieces(chat(rng, short_system_length(rng), rng.randint(30, 300))[1])


def long_chat(rng: Random) -> list[Piece]:
    """Many turns: questions at positions up to the model's last."""
    return chat_pieces(chat(rng, short_system_length(rng), rng.randint(500, 1700))[1])


def long_prompt(rng: Random) -> list[Piece]:
    """A system prompt of several hundred tokens or more, and questions about it."""
    mix = {**MIX, "recall": 20.0, "tell": 0.5}
    prompt_length, length = rng.randint(200, 1700), rng.randint(20, 150)
    return chat_pieces(chat(rng, prompt_length, length, mix, rng.randint(3, 20))[1])


def plain_story(rng: Random) -> list[Piece]:
    """A story without a chat around it."""
    return [(write_story(rng, story_slots(rng)) + END, "story")]


def plain_few_shot(rng: Random) -> list[Piece]:
    """Lines of examples. Every line teaches its German; only the last one teaches what
    follows, and that is the end: so the model stops after one line."""
    pieces: list[Piece] = []
    for english, german in few_shot(rng):
        pieces += [(english, "context"), (german, "answer"), ("\n", "silent")]
    return [*pieces[:-1], (END, "answer")]


def plain_facts(rng: Random) -> list[Piece]:
    """Facts as sentences; again only the last one teaches that a text ends here."""
    pieces: list[Piece] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice([kind for kind in FACT_KINDS.values() if kind.y_is_last])
        x, y = rng.choice(list(kind.facts.items()))
        start, end = capitalise(kind.sentence.format(x=x, y="\0")).split("\0")
        start = start.rstrip()  # the space belongs to the token that follows
        pieces.append((f" {start}", "silent") if pieces else (start, "context"))
        pieces.append((f" {y}{end}", "answer"))
    return [*pieces, (END, "answer")]


DOCUMENTS: dict[
    Callable[[Random], list[Piece]], float
] = {  # maker -> share of documents
    single_turn: 56.0,
    short_chat: 20.0,
    long_chat: 3.0,
    long_prompt: 4.0,
    plain_story: 7.0,
    plain_few_shot: 7.0,
    plain_facts: 3.0,
}


def training_document(rng: Random) -> list[Piece]:
    """One document of the corpus."""
    make = rng.choices(list(DOCUMENTS), list(DOCUMENTS.values()))[0]
    return make(rng)


# --- held-out questions -------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A question that training never saw; a prompt is messages or plain text."""

    skill: str
    prompt: list[Message] | str
    answer: str


SKILLS = {  # skill -> what is asked, as the model card says it
    "sums": "sums of two numbers from 0 to 99; the pair is new",
    "facts": "facts under a system prompt; this phrasing of this fact is new",
    "context": "facts told in the system prompt or earlier in the chat; the telling"
    " sentence is new",
    "unknown": 'things never told in the chat; the answer is "I do not know."',
    "translate": "English to German, zero-shot; the phrase is new",
    "few-shot": "English to German from examples in a chat; the phrase is new",
    "few-shot text": "English to German from examples in plain text; the phrase is new",
    "long": "sums, facts, context and translations asked after 1,000 to 1,900 tokens",
}


def recall_question(
    rng: Random, prompt_length: int, length: int, known: bool = True
) -> tuple[list[Message], str]:
    """A chat that tells a reserved sentence somewhere and asks for it at the end."""
    scene = Scene(rng, one_word=prompt_length > 0 and rng.random() < 0.12)
    by = "system" if prompt_length and rng.random() < 0.6 else "user"
    key = scene.untold()
    if known:
        key, sentence = scene.state(by, held_out=True)
    messages = []
    if prompt_length:
        stated = [scene.state("system")[1] for _ in range(rng.randint(0, 8))]
        if known and by == "system":
            stated.append(sentence)
        messages = [message("system", system_prompt(scene, prompt_length, stated))]
    if known and by == "user":
        messages += [message("user", sentence), message("assistant", ACKNOWLEDGED)]
    used = 0.0
    while used < length:
        messages += turn(scene, {**MIX, "story": 0.1})
        used += (
            sum(len(item["content"]) for item in messages[-2:]) / CHARS_PER_TOKEN + 4
        )
    if not known:
        while key in scene.told:
            key = scene.untold()
    question, answer = scene.ask(key)
    return [*messages, message("user", question)], answer


def held_out_question(rng: Random, skill: str) -> Question:
    """A new question for one of SKILLS, in a new conversation."""
    if skill == "few-shot text":
        return Question(skill, *few_shot_prompt(rng, held_out=True))
    prompt_length, length = rng.choice((0, 16, 48, 110, 160)), rng.choice((0, 0, 60))
    kind = skill
    if skill == "long":
        kind = rng.choice(("sums", "facts", "context", "context", "translate"))
        total = rng.randint(1050, 1750)
        prompt_length = rng.choice((48, total - 100, total // 2))
        length = total - prompt_length
    elif skill == "facts":
        prompt_length = prompt_length or 48
    if kind in ("context", "unknown"):
        if not prompt_length:
            length = 60
        messages, answer = recall_question(
            rng, prompt_length, length, known=kind == "context"
        )
        return Question(skill, messages, answer)
    messages, one_word = [], False
    if prompt_length or length:
        scene, messages = chat(rng, prompt_length, max(length, 1))
        one_word = scene.one_word
        if not length:
            messages = messages[:1]
    question, answer = {
        "sums": lambda: ask_sum(rng, held_out=True),
        "facts": lambda: ask_fact(rng, one_word, held_out=True),
        "translate": lambda: ask_translation(rng, held_out=True),
        "few-shot": lambda: few_shot_prompt(rng, held_out=True),
    }[kind]()
    return Question(skill, [*messages, message("user", question)], answer)
