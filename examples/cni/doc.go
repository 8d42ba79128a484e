// SPDX-License-Identifier: Apache-2.0

// Command cni is a CNI plugin (spec 1.0 and 1.1) for nodes that run the agent: it links a container to the node by a pair
// of veth interfaces and returns once the agent has programmed the container's policy and routes, so that no container
// ever runs without them.
//
//	runtime ─ ADD ─▶ cni ─ veth ─▶ kernel
//	                  └── PUT /v1/registry ─▶ agent ─▶ policy, then routes ─▶ answer ─▶ result
//
// # Usage
//
// The plugin reads a network configuration as this:
//
//	{
//	  "cniVersion": "1.0.0", "name": "wayleave", "type": "wayleave",
//	  "socket": "/run/wayleave/agent.sock",
//	  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.65.0.0/24"}]]},
//	  "labels": {"network": "wayleave"}, "profiles": ["open"]
//	}
//
// Without ipam the addresses come from the runtime ("capabilities": {"ips": true}). The endpoint is
// named K8S_POD_NAMESPACE/K8S_POD_NAME of CNI_ARGS, or else "namespace" of the configuration (default "cni") and the
// container's id. Its host interface is named as package kubernetes/convert names those of pods. Other fields: "timeout"
// (default "30s") for what the agent is asked, "mtu" (default that of the kernel), "interfacePrefix" (default "way").
//
// What the configuration does not allow is denied: a container whose labels no policy selects has but its profiles.
//
// # Concurrency
//
// The runtime calls the plugin once at a time for a container; calls for several may run at once.
//
// # Errors
//
// ADD undoes what it did if it fails. DEL fails while the agent cannot be reached, so that the runtime tries again: what was
// registered must go before its address is given to another. STATUS fails with code 50 while the agent is not ready. Errors are those of the CNI specification, as
// JSON on standard output.
package main
