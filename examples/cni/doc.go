// SPDX-License-Identifier: Apache-2.0

// Command cni is a CNI plugin (spec 1.0 and 1.1) for nodes that run the agent.
//
// ADD links a container to the node by a pair of veth interfaces. ADD returns once the agent has
// programmed the container's policy and routes, so that no container runs without them. DEL returns
// once the agent has removed policy and routes from the kernel, so that another container can get
// the address.
//
//	runtime ─ ADD ─▶ cni ─ veth ─▶ kernel
//	                  └── PUT /v1/registry ─▶ agent ─▶ policy, then routes ─▶ answer ─▶ result
//	runtime ─ DEL ─▶ cni ── DELETE /v1/registry ─▶ agent ─▶ no routes, then no policy ─▶ answer
//	                  └── no veth ─▶ address free
//
// # Usage
//
// This is an example of a network configuration that uses the plugin:
//
//	{
//	  "cniVersion": "1.0.0", "name": "wayleave", "type": "wayleave",
//	  "socket": "/run/wayleave/agent.sock",
//	  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.65.0.0/24"}]]},
//	  "labels": {"network": "wayleave"}, "profiles": ["open"]
//	}
//
// The field ipam names the plugin that gives out addresses. The example uses host-local, one of the
// reference plugins. The plugin that ipam names must be in the runtime's folder of plugins. If you
// leave out ipam, the runtime must provide the addresses: set "capabilities": {"ips": true}.
//
// These other fields are optional:
//
//   - "namespace": if a container is not a pod, its endpoint is in this namespace; default "cni".
//   - "timeout": the timeout of requests to the agent; default "30s".
//   - "mtu": the MTU of both interfaces; 0, the default, means the kernel's default.
//   - "interfacePrefix" (default "way") and "endpointDir" (default "/var/lib/wayleave/endpoints"):
//     set these to the values of the agent's settings interface-prefix and endpoint-dir.
//
// The plugin registers each container with the agent as an endpoint. The name of a pod's endpoint
// consists of K8S_POD_NAMESPACE and K8S_POD_NAME of CNI_ARGS. If CNI_ARGS does not have these two,
// the container is not a pod. The name of its endpoint then consists of the field "namespace" and
// the container's ID. The name of the host interface is the result of convert.InterfaceName.
//
// A container or pod has one interface of this plugin. A second ADD replaces this interface, even
// if the CNI_IFNAME of the second ADD differs.
//
// The labels of a container decide which policies apply to its traffic. If no policy selects the
// container, the profiles decide. Traffic that neither a policy nor a profile allows is denied.
//
// # Concurrency
//
// The runtime makes one call at a time for a container. Calls for different containers may run at
// once.
//
// # Errors
//
// If ADD fails, it undoes its changes. ADD fails, for example, while another container has the same
// address.
//
// DEL succeeds for a container that does not exist. Otherwise the result depends on the agent:
//
//   - If an agent runs, it must remove the container from the kernel within the timeout. Otherwise
//     DEL fails with code 11 (try again later) and the reason.
//   - If no agent runs, DEL removes the link and the file in endpointDir, and succeeds. When an
//     agent runs again, it removes the rest from the kernel before ADD works again.
//
// The runtime may add a pod again in a new sandbox, and then call DEL for the old sandbox. This DEL
// does not remove the link of the new sandbox.
//
// STATUS fails with code 50 while the agent is not ready. Errors are those of the CNI
// specification, as JSON on standard output.
package main
