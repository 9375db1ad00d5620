"""Settings every test shares."""

import matplotlib
import pytest
from hypothesis import settings

from hardmax._ground.records import fingerprint
from hardmax.verify import checking, verify
from tests.sweeps import TIMES

matplotlib.use("Agg")
# Tests run on machines that are busy; derandomised runs are repeatable.
settings.register_profile("hardmax", deadline=None, derandomize=True, max_examples=30 * TIMES)
settings.load_profile("hardmax")

MOST_ENTRIES = 4_000
"""How many winners a certificate lists at most that is checked in integers as well."""


def is_proved_in_integers(network, text):
    """Say whether the verifier in integers accepts a certificate."""
    try:
        claim = verify.read_certificate(text)
        verify.check_claim(verify.network_of(checking.stored_network(network)), claim)
    except verify.RefusedError:
        return False
    return True


@pytest.fixture(autouse=True, scope="session")
def _verified_twice():
    """Have every certificate that is verified quickly verified in integers as well."""
    quickly = checking.check_certificate
    is_proved = {}

    def check_both(network, certificate, workers):
        refusal = None
        try:
            quickly(network, certificate, workers)
        except checking.RefusedError as error:
            refusal = error
        if certificate.signatures.size <= MOST_ENTRIES:
            text = certificate.to_json()
            name = fingerprint(network), fingerprint(text)
            if name not in is_proved:
                is_proved[name] = is_proved_in_integers(network, text)
            assert is_proved[name] == (refusal is None), f"the verifiers disagree: {refusal}"
        if refusal is not None:
            raise refusal

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "check_certificate", check_both)
        yield
