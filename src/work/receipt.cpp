#include "tenzro/receipts/receipt.hpp"

#include <numeric>

#include "tenzro/receipts/receipt_json.hpp"

#include "remote_bodies.hpp"

namespace tenzro::work {
namespace {

/// The same execution as a set of one.
std::string sign_second(const SignReceipt& job, const receipts::Execution& execution,
                        const JobContext& context) {
  std::vector<std::uint32_t> rows(job.token_indices.size());
  std::iota(rows.begin(), rows.end(), 0U);
  const receipts::SetExecution asked{.model = execution.model,
                                     .layer = execution.layer,
                                     .carrier_kind = execution.carrier_kind,
                                     .carrier = execution.carrier,
                                     .width = execution.d_model,
                                     .tokens = execution.token_indices,
                                     .profile = job.terms->profile,
                                     .nonce = job.terms->nonce,
                                     .router = job.terms->router};
  receipts::SetBatch batch{job.key.expert, rows, job.outputs.as<float>(), job.identity.blob};
  set_types(job.identity.facts, batch);
  return receipts::receipt_set_to_json(
      receipts::make_set(context.identity, asked, {&batch, 1}, context.executor));
}

}  // namespace

Result<SignedReceipt> sign_receipt(const SignReceipt& job, const JobContext& context) {
  const receipts::Execution execution{
      .model = job.key.model,
      .layer = job.key.layer,
      .expert = job.key.expert,
      .token_indices = job.token_indices,
      .carrier_kind = job.is_q8 ? receipts::CarrierKind::q8_0 : receipts::CarrierKind::dense,
      .carrier = job.carrier.bytes(),
      .d_model = job.d_model};
  const receipts::Receipt receipt =
      make_receipt(context.identity, execution, job.outputs.as<float>());
  SignedReceipt made{receipts::receipt_to_json(receipt)};
  if (job.terms) made.receipt2_json = sign_second(job, execution, context);
  return made;
}

}  // namespace tenzro::work
