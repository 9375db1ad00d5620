"""Settings every test shares."""

import matplotlib
import pytest
from hypothesis import settings

from hardmax.verify import checking, verify

matplotlib.use("Agg")
# Tests run on machines that are busy; derandomised runs are repeatable.
settings.register_profile("hardmax", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("hardmax")

MOST_ENTRIES = 4_000
"""How many winners a certificate lists at most that is checked in integers as well."""


@pytest.fixture(autouse=True, scope="session")
def _verified_twice():
    """Have every certificate that is verified quickly verified in integers as well."""
    quickly = checking.check_certificate

    def check_both(network, certificate, workers):
        refusal = None
        try:
            quickly(network, certificate, workers)
        except checking.RefusedError as error:
            refusal = error
        if certificate.signatures.size <= MOST_ENTRIES:
            is_proved = True
            try:
                claim = verify.read_certificate(certificate.to_json())
                verify.check_claim(verify.network_of(checking.stored_network(network)), claim)
            except verify.RefusedError:
                is_proved = False
            assert is_proved == (refusal is None), f"the verifiers disagree: {refusal}"
        if refusal is not None:
            raise refusal

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "check_certificate", check_both)
        yield
