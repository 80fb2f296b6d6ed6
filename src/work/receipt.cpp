#include "tenzro/receipts/receipt.hpp"

#include "tenzro/receipts/receipt_json.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::work {

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
  return SignedReceipt{receipts::receipt_to_json(receipt)};
}

}  // namespace tenzro::work
