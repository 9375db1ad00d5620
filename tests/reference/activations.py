"""Activations from their published definitions, for fractions and for floats alike."""


def relu(z):
    return z if z > 0 else 0 * z


def identity(z):
    return z


def absolute(z):
    return z if z > 0 else -z


def leaky(slope):
    return lambda z: z if z > 0 else slope * z


def clipped(low, high):
    def value(z):
        raised = z if low is None or z > low else low
        return raised if high is None or raised < high else high

    return value


def soft_shrunk(threshold):
    def value(z):
        if z > threshold:
            return z - threshold
        return z + threshold if z < -threshold else 0 * z

    return value


def hard_sigmoid(alpha, beta):
    return lambda z: max(0, min(1, alpha * z + beta))
