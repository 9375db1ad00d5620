"""Send thousands of corrupted messages to the local server; each must get an answer.

python -m tests.explorer.fuzz_server N_MESSAGES SEED
"""

import copy
import json
import random
import sys
import time

from tests.explorer.test_server import Local, answer, question, relu

NASTY = (
    None, True, -1, 0, 1 << 70, 1.5, 1e308, -1e-320, "", "x", "\0", "9" * 400, [], {}, [[]], [None],
    {"weight": []}, [[[1.0]]], "ReluNetwork", "cancel", "heads", "NaN", [1e999], {"id": 1},
)  # fmt: skip


def places(value, at=()):
    """Return the paths to everything inside lists and objects."""
    found = [at] if at else []
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in inside:
            found += places(item, (*at, key))
    return found


def corrupt(text, rng):
    """Corrupt a message: replace or remove a part of it, or cut or change its text."""
    if rng.random() < 0.2:
        at = rng.randrange(len(text))
        changes = text[:at], text[at:], text[:at] + rng.choice('{}[]",:0\\') + text[at + 1 :]
        return rng.choice(changes)
    message = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        known = places(message)
        if not known:
            break
        *path, last = rng.choice(known)
        owner = message
        for key in path:
            owner = owner[key]
        if rng.random() < 0.25:
            del owner[last]
        elif isinstance(owner, list) and rng.random() < 0.3:
            owner.append(copy.deepcopy(rng.choice(NASTY)))
        elif isinstance(owner[last], float) and rng.random() < 0.8:
            owner[last] = rng.choice((0.0, -1.0, 1e308, -1e-320, 5e-324, 3.0, 1e16))
        else:
            owner[last] = copy.deepcopy(rng.choice(NASTY))
    return json.dumps(message)


def main(n_messages, seed):
    rng = random.Random(seed)
    one = Local(offers=["nothing"])
    good = [
        question(1, relu(3)),
        question(2, relu(3), depth=1, domain={"plane": True}),
        question(
            3, relu(3), domain={"rows": [["1", "0", "1"], ["0", "1", "1"], ["-1", "-1", "0"]]}
        ),
        question(4, relu(3), kind="certificate"),
        json.dumps({"id": 5, "kind": "heads", "name": "nothing", "tokens": [1, 2]}),
        json.dumps({"id": 6, "kind": "cancel"}),
    ]
    replies, began = {"error": 0, "answer": 0, "silence": 0}, time.monotonic()
    with one.connect() as other:
        for batch in range(0, n_messages, 50):
            with one.connect() as connection:
                other.send(question(batch, relu(16)))
                for _ in range(50):
                    connection.send(corrupt(rng.choice(good), rng))
                # Newer requests replace older ones, so not every request is answered.
                connection.send(question(777777, relu(3)))
                while True:
                    reply = connection.recv(timeout=60)
                    if isinstance(reply, bytes):
                        replies["answer"] += 1
                        if b'"id": 777777' in reply[:200]:
                            break
                    elif "error" in json.loads(reply):
                        replies["error"] += 1
                assert answer(other, batch)["n"] > 50
    one.close()
    replies["silence"] = n_messages + n_messages // 50 - replies["error"] - replies["answer"]
    print(f"{n_messages} messages in {time.monotonic() - began:.0f} s: {replies}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
