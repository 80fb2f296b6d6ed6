#include <string>

#include "method.hpp"
#include "param_reader.hpp"

namespace tenzro::rpc {
namespace {

constexpr Param kPublishParams[] = {
    {"bytes_b64", types::kBase64, Need::required, "The blob's bytes."}};
constexpr Param kFetchParams[] = {
    {"tenzro_uri", types::kBlobUri, Need::required, "A URI that carries the blob's hash."}};

Result<Call> read_publish(ParamReader& params) {
  PublishBlobCall call;
  std::optional<BufferRef> bytes = params.optional_base64("bytes_b64");
  if (!bytes) params.refuse("", "missing bytes_b64");
  if (bytes) call.bytes = *std::move(bytes);
  return params.finish(std::move(call));
}

Result<Call> read_fetch(ParamReader& params) {
  std::optional<std::string> uri = params.optional_blob_uri("tenzro_uri");
  if (!uri) params.refuse("", "missing tenzro_uri");
  return params.finish(FetchBlobCall{std::move(uri).value_or("")});
}

Result<Call> read_endpoint_info(ParamReader& params) {
  return params.finish(EndpointInfoCall{});
}

Result<Call> read_endpoint_id(ParamReader& params) {
  return params.finish(EndpointIdCall{});
}

Result<Call> read_alpn_list(ParamReader& params) {
  return params.finish(AlpnListCall{});
}

constexpr MethodError kPublishErrors[] = {{-32602, "missing bytes_b64"},
                                          {-32602, "invalid bytes_b64: FAULT"}};
constexpr MethodError kFetchErrors[] = {{-32602, "missing tenzro_uri"},
                                        {-32602, "invalid tenzro_uri: FAULT"},
                                        {-32000, "blob fetch: REASON"}};

constexpr Method kMethods[] = {
    {"tenzro_iroh_publishBlob", Scope::admin, "Keeps bytes in this node's blob store.",
     kPublishParams, "The blob's URI, its hash and its size.", kPublishErrors,
     R"([{"bytes_b64":"aGVsbG8="}])",
     R"({"tenzro_uri":"tenzro://blob/ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f","blake3_hex":"ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f","size_bytes":5})",
     read_publish},
    {"tenzro_iroh_fetchBlob", Scope::read, "A blob's bytes, fetched from a holder where need be.",
     kFetchParams, "The bytes.", kFetchErrors,
     R"([{"tenzro_uri":"tenzro://blob/ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f"}])",
     R"({"bytes_b64":"aGVsbG8="})", read_fetch},
    {"tenzro_iroh_getInfo",
     Scope::read,
     "This node's QUIC endpoint.",
     {},
     "Its id, twice because clients read either name, and the protocols it serves.",
     {},
     "[{}]",
     R"({"endpoint_id":"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8","endpoint_id_hex":"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8","docs_enabled":false,"alpns":["tenzro/moe"]})",
     read_endpoint_info},
    {"tenzro_iroh_getEndpointId",
     Scope::read,
     "The id of this node's QUIC endpoint.",
     {},
     "The id: an Ed25519 public key in hex.",
     {},
     "[{}]",
     R"({"endpoint_id":"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"})",
     read_endpoint_id},
    {"tenzro_iroh_listAlpns",
     Scope::read,
     "The protocols that this node's endpoint serves.",
     {},
     "Their names.",
     {},
     "[{}]",
     R"({"alpns":["tenzro/moe"]})",
     read_alpn_list},
};

}  // namespace

std::span<const Method> blob_methods() {
  return kMethods;
}

}  // namespace tenzro::rpc
