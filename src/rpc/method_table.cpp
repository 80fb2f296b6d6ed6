#include "method.hpp"

namespace tenzro::rpc {

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::read:
      return "read";
    case Scope::execute:
      return "execute";
    case Scope::admin:
      return "admin";
  }
  return "unknown";
}

std::array<MethodGroup, kGroups> method_groups() {
  return {{
      {"Shards and plans", shard_methods()},
      {"Experts and gates", expert_methods()},
      {"Routing and execution", forward_methods()},
      {"Preparing experts", prepare_methods()},
      {"Blobs and endpoint", blob_methods()},
      {"Node", node_methods()},
  }};
}

const Method* find_method(std::string_view name) {
  for (const MethodGroup& group : method_groups()) {
    for (const Method& method : group.methods) {
      if (method.name == name) return &method;
    }
  }
  return nullptr;
}

}  // namespace tenzro::rpc
