"""Forged certificates, whole or in parts, with their models: hashes are right, claims are not."""

from tests.forged_certificates import Case, cases, falsified
from tests.forged_certificates import forged as forged_case
from tests.fuzz.mutations import damaged
from tests.fuzz.trials import FalseClaimError, Kind
from tests.verify.test_forgeries import KINDS, is_true, quickly, simply


def forged(rng):
    """Return a model file, and a certificate or its parts."""
    case = rng.choice(cases(rng.choice(KINDS)))
    case = rng.choice([forged_case, falsified])(rng, case)
    if rng.random() < 0.05:
        place = rng.randrange(len(case.certificate))
        texts = [*case.certificate]
        texts[place] = damaged(rng, texts[place])
        case = case._replace(certificate=tuple(texts))
    parts = {f"part-{i}.json": text for i, text in enumerate(case.certificate)}
    return {"model.safetensors": case.model, **parts}


def used(rng, folder):
    """Verify a certificate in three ways; a claim that is accepted is recounted."""
    names = sorted(folder.glob("part-*.json"), key=lambda path: int(path.stem[5:]))
    case = Case(
        (folder / "model.safetensors").read_bytes(), tuple(path.read_bytes() for path in names)
    )
    answer = quickly(case)
    if simply(case) != answer:
        raise FalseClaimError(f"verify_certificate answers {answer}, verify.py {simply(case)}")
    if isinstance(answer, str):
        return answer
    if not is_true(case):
        raise FalseClaimError("a false certificate is accepted")
    return "accepted"


CERTIFICATES = Kind(forged, used)
