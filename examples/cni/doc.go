// SPDX-License-Identifier: Apache-2.0

// Command cni is a CNI plugin (spec 1.0 and 1.1) for nodes that run the agent. ADD links a container to the node by a
// pair of veth interfaces, and returns once the agent has programmed the container's policy and routes. So no container
// runs without them. DEL returns once they are removed from the kernel. So another container can get the address.
//
//	runtime ─ ADD ─▶ cni ─ veth ─▶ kernel
//	                  └── PUT /v1/registry ─▶ agent ─▶ policy, then routes ─▶ answer ─▶ result
//	runtime ─ DEL ─▶ cni ── DELETE /v1/registry ─▶ agent ─▶ no routes, then no policy ─▶ answer
//	                  └── no veth ─▶ address free
//
// # Usage
//
// This is an example of its network configuration:
//
//	{
//	  "cniVersion": "1.0.0", "name": "wayleave", "type": "wayleave",
//	  "socket": "/run/wayleave/agent.sock",
//	  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.65.0.0/24"}]]},
//	  "labels": {"network": "wayleave"}, "profiles": ["open"]
//	}
//
// The ipam plugin, here host-local of the reference plugins, must be in the runtime's folder of plugins. Without ipam,
// the runtime provides the addresses ("capabilities": {"ips": true}). The name of the endpoint is
// K8S_POD_NAMESPACE/K8S_POD_NAME of CNI_ARGS. Without these, it is "namespace" of the configuration (default "cni") and
// the container's ID. The name of its host interface is the result of convert.InterfaceName. Other fields are "timeout"
// (default "30s") of requests to the agent and "mtu" (default that of the kernel). "interfacePrefix" (default "way")
// and "endpointDir" (default "/var/lib/wayleave/endpoints") are the agent's settings of these names.
//
// A container or pod has one interface of this plugin. A second ADD, also with another CNI_IFNAME, replaces it.
//
// Traffic that the configuration does not allow is denied: if no policy selects the labels of a container, its profiles
// decide.
//
// # Concurrency
//
// The runtime makes one call at a time for a container. Calls for different containers may run at once.
//
// # Errors
//
// If ADD fails, it undoes its changes. It fails for an address that another container has, until that container is
// removed.
//
// DEL succeeds for a container that does not exist. If an agent runs and has not removed the container from the kernel
// within the timeout, DEL fails with code 11 (try again later) and the reason. If no agent runs, DEL succeeds: it
// removes the link and the file in endpointDir. The next agent removes the rest from the kernel before ADD works again.
// If the pod was added again, in another sandbox, DEL does not remove that one.
//
// STATUS fails with code 50 while the agent is not ready. Errors are those of the CNI
// specification, as JSON on standard output.
package main
