// SPDX-License-Identifier: Apache-2.0

// Command cni is a CNI plugin (spec 1.0 and 1.1) for nodes that run the agent: it links a container
// to the node by a pair of veth interfaces and returns once the agent has programmed the
// container's policy and routes, so that no container ever runs without them. A container is
// removed when nothing of it is in the kernel any more, so that its address can be another's.
//
//	runtime ─ ADD ─▶ cni ─ veth ─▶ kernel
//	                  └── PUT /v1/registry ─▶ agent ─▶ policy, then routes ─▶ answer ─▶ result
//	runtime ─ DEL ─▶ cni ── DELETE /v1/registry ─▶ agent ─▶ no routes, then no policy ─▶ answer
//	                  └── no veth ─▶ address free
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
// The plugin named by ipam, here host-local of the reference plugins, has to be where the runtime
// looks for plugins. Without ipam the addresses come from the runtime ("capabilities": {"ips":
// true}). The endpoint is named K8S_POD_NAMESPACE/K8S_POD_NAME of CNI_ARGS, or else "namespace" of
// the configuration (default "cni") and the container's id. Its host interface is named as package
// kubernetes/convert names those of pods. Other fields: "timeout" (default "30s") for what the
// agent is asked, "mtu" (default that of the kernel), "interfacePrefix" (default "way") and
// "endpointDir" (default "/var/lib/wayleave/endpoints"), which are the agent's settings of these
// names.
//
// A container, or pod, has one interface by this plugin: adding it once more, also by another
// CNI_IFNAME, takes the place of what was there.
//
// What the configuration does not allow is denied: a container whose labels no policy selects has
// but its profiles.
//
// # Concurrency
//
// The runtime calls the plugin once at a time for a container; calls for several may run at once.
//
// # Errors
//
// ADD undoes what it did if it fails. It fails for an address that another container has, until
// that is removed.
//
// DEL succeeds for what is not there, however often. It fails with code 11 (try again later), and
// says why, while an agent runs and has not taken the container out of the kernel within the
// timeout. While no agent runs DEL succeeds: it removes the link and what the next agent would read
// in endpointDir, and that one takes the rest out of the kernel before ADD works again. A pod that
// was added anew, in another sandbox, is not removed with the old one.
//
// STATUS fails with code 50 while the agent is not ready. Errors are those of the CNI
// specification, as JSON on standard output.
package main
