#pragma once
/// \file
/// What a node wants done by its shell: values, no callbacks.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/rpc/answer.hpp"
#include "tenzro/work/download.hpp"
#include "tenzro/work/job.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::node {

/// The one answer of a request.
struct Reply {
  RequestId request{};
  Result<rpc::Answer> answer;
};

/// Compute this; answer with Node::on_job_done. Work for a request is worth nothing once the
/// request has its Reply or was cancelled: it may then be stopped, and answered with any error. The
/// same holds for a peer's request and its SendReply.
struct Run {
  JobId id{};
  work::Job job;
  std::optional<RequestId> request = std::nullopt;
  std::optional<PeerRequestId> peer_request = std::nullopt;
};

/// Do this on disk; answer with Node::on_store_done.
using work::Store;

/// Calls to peers and replies to theirs; calls answer with Node::on_peer_reply, downloads with
/// Node::on_downloaded.
using work::CancelCall;
using work::Download;
using work::RefuseRequest;
using work::SendCall;
using work::SendHttpCall;
using work::SendReply;

/// An operator should read this.
struct Notice {
  std::string text;
};

using Action = std::variant<Reply, Run, Store, Notice, SendCall, SendHttpCall, CancelCall,
                            SendReply, RefuseRequest, Download>;
using Outbox = std::vector<Action>;

}  // namespace tenzro::node
