// Each method's parameters: what they become, and what is said when they are wrong.
#include <gtest/gtest.h>

#include "call_text.hpp"
#include "requests.hpp"

namespace tenzro::rpc {
namespace {

struct Refusal {
  std::string_view method;
  std::string_view params;
  std::string_view outcome;
};

void expect_all(std::initializer_list<Refusal> refusals) {
  for (const Refusal& each : refusals) {
    EXPECT_EQ(outcome_of(each.method, each.params), each.outcome)
        << each.method << ' ' << each.params;
  }
}

constexpr std::string_view kHash =
    "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";

// ---- rules that every method shares

TEST(ModelId, HasOneToTwoHundredFiftySixBytesWithoutControlCharacters) {
  const auto with = [](std::string_view id) {
    return outcome_of("tenzro_moeShardMap", R"({"model_id":")" + std::string(id) + "\"}");
  };
  EXPECT_EQ(with("m"), "ok");
  EXPECT_EQ(with("../../etc/\xC3\xA9 \xE2\x82\xAC"), "ok");
  EXPECT_EQ(with(std::string(256, 'm')), "ok");
  EXPECT_EQ(with(std::string(257, 'm')), "-32602: model_id: must have 1 to 256 bytes");
  EXPECT_EQ(with(""), "-32602: model_id: must have 1 to 256 bytes");
  EXPECT_EQ(with("\xC2\xA0"), "ok");
  for (const char* id : {"a\\u0000", "\\n", "\\u001f", "\\u007f", "\x7F", "\xC2\x85", "\\u0080"}) {
    EXPECT_EQ(with(id), "-32602: model_id: holds a control character") << id;
  }
}

TEST(Integers, AreWrittenAsIntegersInRange) {
  const auto with = [](std::string_view layer) {
    return outcome_of("tenzro_moeGateUnload",
                      R"({"model_id":"m","layer":)" + std::string(layer) + '}');
  };
  for (const char* layer : {"0", "-0", "4294967295"}) EXPECT_EQ(with(layer), "ok") << layer;
  for (const char* layer :
       {"1.0", "1e3", "1E0", "-1.5", "\"1\"", "true", "[]", "[1]", "{}", "1e999"}) {
    EXPECT_EQ(with(layer), "-32602: layer: must be an integer") << layer;
  }
  for (const char* layer : {"4294967296", "-1", "18446744073709551616", "-9223372036854775809"}) {
    EXPECT_EQ(with(layer),
              "-32602: layer: " + std::string(layer) + " is out of range 0..4294967295");
  }
  const std::string digits(100'000, '9');
  EXPECT_EQ(with(digits),
            "-32602: layer: " + std::string(200, '9') + "… is out of range 0..4294967295");
  EXPECT_EQ(with("null"), "-32602: missing layer");
}

TEST(Flags, AreTrueOrFalse) {
  for (const char* flag : {"1", "0", "\"true\"", "[]", "{}"}) {
    EXPECT_EQ(
        outcome_of("tenzro_moePlanDispatch",
                   R"({"model_id":"m","routings":[],"allow_cold":)" + std::string(flag) + '}'),
        "-32602: allow_cold: must be true or false");
  }
}

TEST(MissingParameters, AreNamedAndNullIsMissing) {
  expect_all({
      {"tenzro_moeShardMap", "{}", "-32602: missing model_id"},
      {"tenzro_moeShardMap", R"({"model_id":null})", "-32602: missing model_id"},
      {"tenzro_moeShardMap", R"({"model_id":7})", "-32602: model_id: must be a string"},
      {"tenzro_moeCatalogShape", "[]", "-32602: missing model_id"},
      {"tenzro_modelMetadata", "{}", "-32602: missing model_id"},
      {"tenzro_moeExpertLoad", R"({"model_id":"m"})", "-32602: missing layer"},
      {"tenzro_moeExpertLoad", R"({"model_id":"m","layer":1})", "-32602: missing expert"},
      {"tenzro_moeExpertUnload", R"({"model_id":"m","layer":1})", "-32602: missing expert"},
      {"tenzro_moeGateLoad", R"({"layer":1})", "-32602: missing model_id"},
      {"tenzro_moeRoute", R"({"model_id":"m","layer":1})", "-32602: missing d_model"},
      {"tenzro_moeRoute", R"({"model_id":"m","layer":1,"d_model":2})",
       "-32602: missing hidden_states"},
      {"tenzro_moeForward", R"({"model_id":"m","layer":1,"d_model":2,"hidden_states":null})",
       "-32602: missing hidden_states"},
      {"tenzro_moeExecute", R"({"model_id":"m","layer":1,"expert":2})",
       "-32602: invalid execute params: missing d_model"},
      {"tenzro_moeExecute", R"({"model_id":"m","layer":1,"expert":2,"d_model":2})",
       "-32602: invalid execute params: missing token_indices"},
      {"tenzro_moePrepareExperts", R"({"model_id":"m"})", "-32602: missing layer"},
      {"tenzro_moePrepareStatus", "{}", "-32602: missing job_id"},
      {"tenzro_moePrepareCancel", "{}", "-32602: missing job_id"},
      {"tenzro_moePrepareResume", "{}", "-32602: missing job_id"},
      {"tenzro_iroh_publishBlob", "[{}]", "-32602: missing bytes_b64"},
      {"tenzro_iroh_fetchBlob", "[{}]", "-32602: missing tenzro_uri"},
  });
}

TEST(MethodsWithoutParameters, TakeAnyObject) {
  for (const char* method :
       {"tenzro_moeReplicationPolicy", "tenzro_moeExpertStatus", "tenzro_moePrepareList",
        "tenzro_iroh_getInfo", "tenzro_iroh_getEndpointId", "tenzro_iroh_listAlpns",
        "tenzro_listProviders", "tenzro_nodeStatus", "tenzro_nodeDrain", "rpc.discover"}) {
    for (const char* params : {"{}", "[]", "[{}]", "null", R"({"model_id":7})"}) {
      const auto reply = reply_to(request(method, params));
      EXPECT_TRUE(reply.contains("result")) << method << ' ' << params << ' ' << reply;
    }
  }
}

TEST(NodeDrain, ReadsItsLimit) {
  EXPECT_EQ(call_of<NodeDrainCall>("tenzro_nodeDrain", "{}").limit_s, std::nullopt);
  EXPECT_EQ(call_of<NodeDrainCall>("tenzro_nodeDrain", R"({"limit_s":0})").limit_s, 0U);
  const auto reply = reply_to(request("tenzro_nodeDrain", R"({"limit_s":-1})"));
  EXPECT_EQ(reply["error"]["code"], -32602) << reply;
}

// ---- shards and plans

TEST(PlanDispatch, ReadsRoutingsInOrderWithRepetitions) {
  const auto call = call_of<PlanDispatchCall>("tenzro_moePlanDispatch", R"({"model_id":"m",
    "routings":[{"token_index":5,"experts":[{"layer":1,"expert":2},{"expert":2,"layer":1,"x":0}]},
                {"token_index":5,"experts":[]}],"allow_cold":null})");
  EXPECT_EQ(
      text_of(call),
      "1 PlanDispatch model=m allow_cold=none token=5 layer=1 expert=2 layer=1 expert=2 token=5");
  EXPECT_EQ(call_of<PlanDispatchCall>("tenzro_moePlanDispatch",
                                      R"({"model_id":"m","routings":[],"allow_cold":false})")
                .allow_cold,
            false);
}

TEST(PlanDispatch, SaysWhichEntryIsWrong) {
  const auto with = [](std::string_view routings) {
    return outcome_of("tenzro_moePlanDispatch",
                      R"({"model_id":"m","routings":)" + std::string(routings) + '}');
  };
  EXPECT_EQ(outcome_of("tenzro_moePlanDispatch", R"({"model_id":"m"})"),
            "-32602: missing routings array");
  EXPECT_EQ(with("null"), "-32602: missing routings array");
  EXPECT_EQ(with("{}"), "-32602: routings: must be an array");
  EXPECT_EQ(with("\"x\""), "-32602: routings: must be an array");
  EXPECT_EQ(with("[1,2]"), "-32602: routings: must be an array of objects");
  EXPECT_EQ(with("[{\"token_index\":0,\"experts\":[]},[]]"),
            "-32602: routings[1]: must be an object");
  EXPECT_EQ(with(R"([{"experts":[]}])"), "-32602: routing missing token_index");
  EXPECT_EQ(with(R"([{"token_index":null,"experts":[]}])"), "-32602: routing missing token_index");
  EXPECT_EQ(with(R"([{"token_index":"0","experts":[]}])"),
            "-32602: routings[0].token_index: must be an integer");
  EXPECT_EQ(with(R"([{"token_index":-1,"experts":[]}])"),
            "-32602: routings[0].token_index: -1 is out of range 0..4294967295");
  EXPECT_EQ(with(R"([{"token_index":0}])"), "-32602: routing missing experts array");
  EXPECT_EQ(with(R"([{"token_index":0,"experts":{}}])"),
            "-32602: routings[0].experts: must be an array");
  EXPECT_EQ(with(R"([{"token_index":0,"experts":[7]}])"),
            "-32602: routings[0].experts: must be an array of objects");
  EXPECT_EQ(with(R"([{"token_index":0,"experts":[{"expert":1}]}])"),
            "-32602: expert missing layer");
  EXPECT_EQ(with(R"([{"token_index":0,"experts":[{"layer":1}]}])"),
            "-32602: expert missing expert");
  EXPECT_EQ(
      with(R"([{"token_index":0,"experts":[{"layer":1,"expert":2},{"layer":1,"expert":2.0}]}])"),
      "-32602: routings[0].experts[1].expert: must be an integer");
  EXPECT_EQ(with(R"([{"token_index":0,"experts":[{"layer":1,"expert":2},"x"]}])"),
            "-32602: routings[0].experts[1]: must be an object");
}

// ---- experts and gates

TEST(ExpertLoad, TakesInlineBytesOrAUriOrBoth) {
  const std::string uri = "tenzro://blob/" + std::string(kHash);
  EXPECT_EQ(
      text_of(call_of<ExpertLoadCall>(
          "tenzro_moeExpertLoad", R"({"model_id":"m","layer":1,"expert":2,"blob_base64":"AQID"})")),
      "5 ExpertLoad key=m/1 expert=2 inline=1 blob=010203 uri=none");
  EXPECT_EQ(
      text_of(call_of<ExpertLoadCall>(
          "tenzro_moeExpertLoad",
          R"({"model_id":"m","layer":1,"expert":2,"blob_base64":null,"uri":")" + uri + "\"}")),
      "5 ExpertLoad key=m/1 expert=2 inline=0 blob= uri=" + uri);
  EXPECT_EQ(text_of(call_of<GateLoadCall>(
                "tenzro_moeGateLoad",
                R"({"model_id":"m","layer":1,"blob_base64":"","uri":")" + uri + "\"}")),
            "6 GateLoad key=m/1 inline=1 blob= uri=" + uri);
}

TEST(ExpertLoad, RefusesBrokenBytesAndUris) {
  const auto with = [](std::string_view rest) {
    return outcome_of("tenzro_moeExpertLoad",
                      R"({"model_id":"m","layer":1,"expert":2)" + std::string(rest) + '}');
  };
  EXPECT_EQ(with(""), "-32602: missing blob_base64 or uri");
  EXPECT_EQ(with(R"(,"blob_base64":null,"uri":null)"), "-32602: missing blob_base64 or uri");
  EXPECT_EQ(with(R"(,"blob_base64":"AQI")"),
            "-32602: invalid blob_base64: characters are missing at the end");
  EXPECT_EQ(with(R"(,"blob_base64":"AQ*D")"),
            "-32602: invalid blob_base64: the character at 2 cannot stand there");
  EXPECT_EQ(with(R"(,"blob_base64":"AQID\nAQID")").substr(0, 28), "-32602: invalid blob_base64:");
  EXPECT_EQ(with(R"(,"blob_base64":7)"), "-32602: blob_base64: must be a string");
  EXPECT_EQ(with(R"(,"blob_base64":[1,2])"), "-32602: blob_base64: must be a string");
  EXPECT_EQ(with(R"(,"uri":7)"), "-32602: uri: must be a string");
  const std::string scheme = "tenzro://blob/";
  const std::vector<std::string> broken{"blob",
                                        "http://x",
                                        "",
                                        scheme + std::string(63, 'a'),
                                        scheme + std::string(64, 'A'),
                                        scheme + std::string(64, 'a') + "?x=1"};
  for (const std::string& uri : broken) {
    const std::string outcome = with(R"(,"uri":")" + uri + '"');
    EXPECT_EQ(outcome.substr(0, 20), "-32602: invalid uri:") << outcome;
  }
  EXPECT_EQ(with(R"(,"blob_base64":"AQID","uri":"x")").substr(0, 20), "-32602: invalid uri:");
}

TEST(Unload, ReadsItsKey) {
  EXPECT_EQ(text_of(call_of<ExpertUnloadCall>("tenzro_moeExpertUnload",
                                              R"([{"model_id":"m","layer":1,"expert":2}])")),
            "7 ExpertUnload key=m/1 expert=2");
  EXPECT_EQ(
      text_of(call_of<GateUnloadCall>("tenzro_moeGateUnload", R"({"model_id":"m","layer":1})")),
      "8 GateUnload key=m/1");
}

// ---- preparing

TEST(PrepareExperts, HasDefaults) {
  EXPECT_EQ(text_of(call_of<PrepareExpertsCall>("tenzro_moePrepareExperts",
                                                R"({"model_id":"m","layer":3})")),
            "13 PrepareExperts model=m layer=3 experts=none include_gate=1 strict=0 dense_f32=0 "
            "source=none");
  EXPECT_EQ(text_of(call_of<PrepareExpertsCall>(
                "tenzro_moePrepareExperts",
                R"({"model_id":"m","layer":3,"experts":null,"include_gate":null,"quant":null})")),
            "13 PrepareExperts model=m layer=3 experts=none include_gate=1 strict=0 dense_f32=0 "
            "source=none");
}

TEST(PrepareExperts, ReadsEveryOption) {
  EXPECT_EQ(text_of(call_of<PrepareExpertsCall>(
                "tenzro_moePrepareExperts",
                R"({"model_id":"m","layer":3,"experts":[0, 3],"include_gate":false,"strict":true,
                    "dense":"f32","imatrix":"m.gguf","source":"file:///data/m","quant":"q4_k_m"})")),
            "13 PrepareExperts model=m layer=3 imatrix=m.gguf experts=[0,3,] include_gate=0 "
            "strict=1 dense_f32=1 "
            "source=file:///data/m gate=q4_k up=q4_k down=q6_k echo=\"q4_k_m\"");
  const auto with_layer = [](std::string_view layer) {
    const auto call = call_of<PrepareExpertsCall>(
        "tenzro_moePrepareExperts",
        R"({"model_id":"m","load":true,"layer":)" + std::string(layer) + '}');
    const std::string text = text_of(call);
    return text.substr(0, text.find(" experts="));
  };
  EXPECT_EQ(with_layer("[4,0,4]"), "13 PrepareExperts model=m layer=0 layers=[0,4,] load=1");
  EXPECT_EQ(with_layer("\"all\""), "13 PrepareExperts model=m layer=0 all=1 load=1");
  EXPECT_EQ(call_of<PrepareExpertsCall>("tenzro_moePrepareExperts",
                                        R"({"model_id":"m","layer":3,"experts":[]})")
                .experts,
            std::vector<ExpertIndex>());
}

TEST(PrepareExperts, ReadsQuantAsAPresetOrByProjection) {
  const auto quant = [](std::string_view value) {
    const auto call = call_of<PrepareExpertsCall>(
        "tenzro_moePrepareExperts",
        R"({"model_id":"m","layer":3,"quant":)" + std::string(value) + '}');
    const std::string text = text_of(call);
    return text.substr(text.find(" gate=") + 1);
  };
  EXPECT_EQ(quant(R"("q8_0")"), "gate=q8_0 up=q8_0 down=q8_0 echo=\"q8_0\"");
  EXPECT_EQ(quant(R"("q4_k")"), "gate=q4_k up=q4_k down=q4_k echo=\"q4_k\"");
  EXPECT_EQ(quant(R"("q6_k")"), "gate=q6_k up=q6_k down=q6_k echo=\"q6_k\"");
  EXPECT_EQ(quant(R"({"gate":"q4_k", "down":"q6_k"})"),
            R"(gate=q4_k up=none down=q6_k echo={"gate":"q4_k", "down":"q6_k"})");
  EXPECT_EQ(quant(R"({"up":null})"), R"(gate=none up=none down=none echo={"up":null})");
  EXPECT_EQ(quant("{}"), "gate=none up=none down=none echo={}");
  // Members that nobody knows are ignored, as everywhere; the status shows what was said.
  EXPECT_EQ(quant(R"({"up":"q8_0","ffn":"f16","router":8})"),
            R"(gate=none up=q8_0 down=none echo={"up":"q8_0","ffn":"f16","router":8})");
}

TEST(PrepareExperts, SaysWhatIsWrong) {
  const auto with = [](std::string_view rest) {
    return outcome_of("tenzro_moePrepareExperts",
                      R"({"model_id":"m","layer":3,)" + std::string(rest) + '}');
  };
  const std::string list = "-32602: experts must be an array of integers";
  for (const char* experts : {"1", "\"0,3\"", "{}", "[\"0\"]", "[0,null]", "[[0]]", "true"}) {
    EXPECT_EQ(with(R"("experts":)" + std::string(experts)), list) << experts;
  }
  EXPECT_EQ(with(R"("experts":[0,1.0])"), "-32602: experts[1]: must be an integer");
  EXPECT_EQ(with(R"("experts":[-1])"), "-32602: experts[0]: -1 is out of range 0..4294967295");
  const std::string object = "-32602: quant must be a preset string or a per-projection object";
  for (const char* quant : {"1", "[]", "[1]", "true"}) {
    EXPECT_EQ(with(R"("quant":)" + std::string(quant)), object) << quant;
  }
  const std::string kind = "-32602: unknown quant kind 'f16': expected q8_0, q4_k, or q6_k";
  EXPECT_EQ(with(R"("quant":"f16")"), kind);
  EXPECT_EQ(with(R"("quant":{"gate":"q8_0","up":"f16"})"), kind);
  EXPECT_EQ(with(R"("quant":{"up":"q4_k_m"})"),
            "-32602: unknown quant kind 'q4_k_m': expected q8_0, q4_k, or q6_k");
  EXPECT_EQ(with(R"("quant":{"up":8})"), "-32602: quant.up: must be a string");
  EXPECT_EQ(with("\"quant\":{" + std::string(2000, ' ') + "}"),
            "-32602: quant: longer than 1024 bytes");
  EXPECT_EQ(with(R"("include_gate":1)"), "-32602: include_gate: must be true or false");
  EXPECT_EQ(with(R"("strict":"yes")"), "-32602: strict: must be true or false");
  EXPECT_EQ(with(R"("dense":"f16")"), "-32602: dense: unknown type 'f16': expected f32");
  EXPECT_EQ(with(R"("dense":true)"), "-32602: dense: must be a string");
  for (const char* name : {"", ".", "..", "a/b", "a\\\\b"}) {
    EXPECT_EQ(with("\"imatrix\":\"" + std::string(name) + '"'),
              "-32602: imatrix: must be the name of a file in the source's folder");
  }
  EXPECT_EQ(with(R"("source":"")"), "-32602: source: must have 1 to 4096 bytes");
  EXPECT_EQ(with(R"("source":"/a\u0000b")"), "-32602: source: holds a control character");
  EXPECT_EQ(with(R"("source":7)"), "-32602: source: must be a string");
  EXPECT_EQ(with(R"("load":1)"), "-32602: load: must be true or false");
  const auto layer = [](std::string_view value) {
    return outcome_of("tenzro_moePrepareExperts",
                      R"({"model_id":"m","layer":)" + std::string(value) + '}');
  };
  EXPECT_EQ(layer("[]"), "-32602: layer: is an empty list");
  EXPECT_EQ(layer("\"some\""), "-32602: layer: 'some' is no layer: a number, a list or all");
  EXPECT_EQ(layer("[1,-1]"), "-32602: layer[1]: -1 is out of range 0..4294967295");
  EXPECT_EQ(layer("true"), "-32602: layer: must be an integer");
}

TEST(PrepareJobs, AreNamedByTheirId) {
  EXPECT_EQ(text_of(call_of<PrepareStatusCall>("tenzro_moePrepareStatus", R"({"job_id":"j"})")),
            "14 PrepareStatus job_id=j is_summary=0");
  EXPECT_EQ(text_of(call_of<PrepareStatusCall>("tenzro_moePrepareStatus",
                                               R"({"job_id":"j","summary":true})")),
            "14 PrepareStatus job_id=j is_summary=1");
  EXPECT_EQ(text_of(call_of<PrepareCancelCall>("tenzro_moePrepareCancel", R"({"job_id":"j"})")),
            "16 PrepareCancel job_id=j");
  EXPECT_EQ(text_of(call_of<PrepareResumeCall>("tenzro_moePrepareResume", R"({"job_id":"j"})")),
            "26 PrepareResume job_id=j");
  EXPECT_EQ(outcome_of("tenzro_moePrepareStatus", R"({"job_id":7})"),
            "-32602: job_id: must be a string");
}

// ---- blobs

TEST(Blobs, ArePublishedAndFetchedWithParametersInAnArray) {
  EXPECT_EQ(
      text_of(call_of<PublishBlobCall>("tenzro_iroh_publishBlob", R"([{"bytes_b64":"AQID"}])")),
      "17 PublishBlob bytes=010203");
  const std::string uri = "tenzro://blob/" + std::string(kHash) + "?n=" + std::string(kHash);
  EXPECT_EQ(text_of(call_of<FetchBlobCall>("tenzro_iroh_fetchBlob",
                                           R"([{"tenzro_uri":")" + uri + "\"}]")),
            "18 FetchBlob uri=" + uri);
  EXPECT_EQ(outcome_of("tenzro_iroh_publishBlob", R"([{"bytes_b64":"A"}])"),
            "-32602: invalid bytes_b64: characters are missing at the end");
  EXPECT_EQ(outcome_of("tenzro_iroh_fetchBlob", R"([{"tenzro_uri":"x"}])").substr(0, 27),
            "-32602: invalid tenzro_uri:");
}

}  // namespace
}  // namespace tenzro::rpc
