#pragma once
/// \file
/// A loaded gate: its router parameters and its matrices, resident in the backend.
///
/// Immutable once made; shared by requests in flight, so that an unload or a reload never pulls it
/// from under one.
#include <cstddef>
#include <memory>

#include "tenzro/compute/backend.hpp"
#include "tenzro/routing/router.hpp"

namespace tenzro::work {

struct Gate {
  routing::Router router;
  std::shared_ptr<const compute::ResidentMatrix> weight;
  std::shared_ptr<const compute::ResidentMatrix> shared_gate;  ///< or none
  std::shared_ptr<const compute::ResidentMatrix> latent_down;  ///< or none
  std::shared_ptr<const compute::ResidentMatrix> latent_up;    ///< or none
  /// Width of the experts' input and output: the latent width, or d_model.
  std::uint32_t expert_width = 0;
  std::size_t bytes = 0;
};

}  // namespace tenzro::work
