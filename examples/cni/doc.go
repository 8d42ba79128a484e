// SPDX-License-Identifier: Apache-2.0

// Command cni is a CNI plugin (spec 1.0 and 1.1) for nodes that run the agent.
//
// ADD links a container to the node by a pair of veth interfaces. It returns once the agent has
// programmed the container's policy and routes, so that no container runs without them. DEL returns
// once policy and routes are removed from the kernel, so that another container can get the
// address.
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
// The ipam plugin, in the example host-local of the reference plugins, must be in the runtime's
// folder of plugins. Without ipam, the runtime provides the addresses ("capabilities": {"ips":
// true}).
//
// The other fields are:
//
//   - "namespace": for containers that are no pods; default "cni".
//   - "timeout": of requests to the agent; default "30s".
//   - "mtu": of both interfaces; default that of the kernel.
//   - "interfacePrefix" and "endpointDir": must be the agent's settings interface-prefix (default
//     "way") and endpoint-dir (default "/var/lib/wayleave/endpoints").
//
// The plugin registers each container with the agent as an endpoint. The name of the endpoint is
// K8S_POD_NAMESPACE/K8S_POD_NAME of CNI_ARGS. If CNI_ARGS does not have these, it is the namespace
// of the configuration and the container's ID. The name of the host interface is the result of
// convert.InterfaceName.
//
// A container or pod has one interface of this plugin. A second ADD replaces the interface, even if
// it has another CNI_IFNAME.
//
// Policy decides about the traffic of a container by its labels. If no policy selects the labels,
// the profiles decide. Traffic that nothing allows is denied.
//
// # Concurrency
//
// The runtime makes one call at a time for a container. Calls for different containers may run at
// once.
//
// # Errors
//
// If ADD fails, it undoes its changes. It fails if another container has the same address, until
// that container is removed.
//
// DEL succeeds for a container that does not exist. Otherwise the result depends on the agent:
//
//   - An agent runs, but does not remove the container from the kernel within the timeout: DEL
//     fails with code 11 (try again later) and the reason.
//   - No agent runs: DEL removes the link and the file in endpointDir, and succeeds. The next agent
//     removes the rest from the kernel before ADD works again.
//
// If the pod was added again, in another sandbox, DEL does not remove the new sandbox.
//
// STATUS fails with code 50 while the agent is not ready. Errors are those of the CNI
// specification, as JSON on standard output.
package main
