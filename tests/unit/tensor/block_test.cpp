#include "tenzro/tensor/dtype.hpp"
