#include "tenzro/compute/backend.hpp"

#include "tenzro/base/bytes.hpp"

namespace tenzro::compute {

std::string_view name_of(Profile profile) {
  return profile == Profile::exact ? "exact" : "fast";
}

void SerialExecutor::parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

const tensor::RowEncoder& Backend::row_encoder() const {
  static const tensor::RowEncoder scalar;
  return scalar;
}

void Registry::add(std::unique_ptr<Backend> backend) {
  backends_.push_back(std::move(backend));
}

Result<Backend*> Registry::choose(std::string_view choice) const {
  const std::string_view prefix = choice == "wgsl" ? "wgpu" : choice;
  std::string known;
  for (const auto& backend : backends_) {
    if (prefix == "auto" || backend->name().starts_with(prefix)) return backend.get();
    known += known.empty() ? "" : ", ";
    known += backend->name();
  }
  return fail(ErrorCode::infrastructure, "compute backend",
              "'" + echo(choice) + "' is not available here; there is: " + known);
}

}  // namespace tenzro::compute
