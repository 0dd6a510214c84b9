"""From an error to its failure shape: rules of the registry, and the masked detail where no rule applies.

Part of `recompute.py`, and like it independent of the Rust code.
"""

import re
import tomllib

GENERIC_CLASSES = {
    "Error", "Exception", "RuntimeError", "BaseException", "ToolError", "ToolException", "Throwable",
    "Failure", "UnknownError",
}


# --- the failure shape ----------------------------------------------------------------------------

def text(value):
    """A class or code as text; None when absent or blank."""
    if isinstance(value, bool) or value is None:
        return None
    value = str(value).strip()
    return value or None


def chain_of(error):
    """The error and its causes, outermost first."""
    if not error:
        return []
    return [error] + [c for c in error.get("causes") or [] if isinstance(c, dict)]


def last_segment(name):
    parts = [p for p in re.split(r"\.|::|/|\\", name) if p]
    return parts[-1] if parts else name


def classes_of(chain):
    """Every class of the chain, as the full name and as its last segment."""
    out = []
    for entry in chain:
        name = text(entry.get("class"))
        if name:
            out += [name, last_segment(name)]
    return out


def codes_of(chain):
    return [c for c in (text(entry.get("code")) for entry in chain) if c]


HTTP_CODE = re.compile(r"(?:http[_-]?)?([1-5][0-9][0-9])", re.IGNORECASE)


def http_of(chain):
    out = []
    for code in codes_of(chain):
        m = HTTP_CODE.fullmatch(code)
        if m:
            out += [m[1], m[1][0] + "xx"]
    return out


def glob(pattern):
    return re.compile(".*".join(re.escape(p) for p in pattern.split("*")), re.DOTALL)


class Rule:
    KEYS = ("type", "class", "code", "http")

    def __init__(self, table):
        self.name = table["name"]
        self.match = self.patterns(table.get("match", {}))
        self.when = self.patterns(table.get("when", {}))
        unknown = set(table) - {"name", "match", "when"}
        if unknown:
            raise ValueError(f"shape {self.name}: unknown keys {sorted(unknown)}")

    def patterns(self, table):
        unknown = set(table) - set(self.KEYS)
        if unknown:
            raise ValueError(f"shape {self.name}: unknown keys {sorted(unknown)}")
        return {k: [glob(p) for p in ([v] if isinstance(v, str) else v)] for k, v in table.items()}

    def applies(self, facts):
        def hit(key, patterns):
            return any(p.fullmatch(value) for p in patterns for value in facts[key])
        return ((not self.match or any(hit(k, p) for k, p in self.match.items()))
                and all(hit(k, p) for k, p in self.when.items()))


def load_rules(path):
    with open(path, "rb") as f:
        return [Rule(t) for t in tomllib.load(f).get("shape", [])]


def shape_of(rules, kind, error):
    chain = chain_of(error)
    facts = {"type": [kind], "class": classes_of(chain), "code": codes_of(chain), "http": http_of(chain)}
    name = next((r.name for r in rules if r.applies(facts)), "app_error")
    if name in ("app_error", "tool_error", "tool_soft_error"):
        return f"{name}:{detail(kind, chain)}"
    return name


def detail(kind, chain):
    parts = []
    for entry in reversed(chain):
        name = text(entry.get("class"))
        if name:
            if last_segment(name) not in GENERIC_CLASSES:
                parts.append(last_segment(name))
            break
    codes = codes_of(chain)
    if codes:
        parts.append(codes[-1])
    for entry in reversed(chain):
        message = entry.get("message")
        line = first_line(message) if isinstance(message, str) else ""
        if line:
            line = mask(without_prefixes(line, chain))
            if line:
                parts.append(line)
            break
    return ":".join(parts) or kind


ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]", re.DOTALL)


def first_line(message):
    for line in re.split(r"\r\n|\n|\r", ANSI.sub("", message)):
        if line.strip():
            return line.strip()[:1000]
    return ""


def without_prefixes(line, chain):
    prefixes = {x + ":" for x in classes_of(chain) + codes_of(chain)}
    while True:
        prefix = max((p for p in prefixes if line.startswith(p)), key=len, default=None)
        if prefix is None:
            return line
        line = line[len(prefix):].strip()


# --- the mask -------------------------------------------------------------------------------------

QUOTES = "'\"`"
BRACKETS = "()[]{}"
PARTNER = {"{": "}", "[": "]"}
JOINERS = ",;=|"          # end a word, unless a slash came before in it
TRAILING = ".:!?,;"


def alnum(c):
    return c.isalpha() or c.isnumeric()


def mask(line):
    line = mask_words(mask_quoted(mask_nested(line)))
    line = " ".join(line.split())
    line = re.sub(r"\*(?:[ ,:|.\-]*\*)+", "*", line)
    return line[:80].strip()


def mask_nested(line):
    out, i = [], 0
    while i < len(line):
        c = line[i]
        if c in PARTNER and line[i + 1:i + 2] and line[i + 1] in QUOTES + BRACKETS:
            depth = 0
            while i < len(line):
                depth += (line[i] == c) - (line[i] == PARTNER[c])
                i += 1
                if depth == 0:
                    break
            out.append("*")
        else:
            out.append(c)
            i += 1
    return "".join(out)


def mask_quoted(line):
    out, i = [], 0
    while i < len(line):
        c = line[i]
        if c in QUOTES and not (i and alnum(line[i - 1])):
            end = next((j for j in range(i + 1, len(line))
                        if line[j] == c and not (j + 1 < len(line) and alnum(line[j + 1]))), None)
            if end is not None:
                out.append("*")
                i = end + 1
                continue
        out.append(c)
        i += 1
    return "".join(out)


def mask_words(line):
    out, i = [], 0
    while i < len(line):
        start, slash = i, False
        while i < len(line):
            c = line[i]
            if c.isspace() or c in QUOTES or c in BRACKETS or (c in JOINERS and not slash):
                break
            slash = slash or c == "/"
            i += 1
        if i == start:
            out.append(line[i])
            i += 1
            continue
        word = line[start:i]
        body = word.rstrip(TRAILING)
        if any(c.isnumeric() or c in "_/\\" for c in body):
            out.append("*" + word[len(body):])
        else:
            out.append(word)
    return "".join(out)
