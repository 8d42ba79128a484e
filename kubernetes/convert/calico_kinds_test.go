// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// Policies for host endpoints, staged policies and rules with services are converted.
func TestCalicoPolicies(t *testing.T) {
	rule := []policy.Rule{{Action: policy.Deny}}
	tests := []struct {
		name, text string
		want       *policy.Policy
	}{
		{
			"untracked", "kind: GlobalNetworkPolicy\nmetadata: {name: x}\n" +
				"spec: {doNotTrack: true, applyOnForward: true, ingress: [{action: Deny}], egress: [{action: Deny}]}",
			&policy.Policy{Name: "x", DoNotTrack: true, ApplyOnForward: true, Ingress: rule, Egress: rule},
		},
		{
			"before NAT", "kind: GlobalNetworkPolicy\nmetadata: {name: x}\n" +
				"spec: {preDNAT: true, applyOnForward: true, ingress: [{action: Deny}]}",
			&policy.Policy{Name: "x", PreDNAT: true, ApplyOnForward: true, Ingress: rule},
		},
		{
			"services",
			"kind: NetworkPolicy\nmetadata: {name: x, namespace: shop}\nspec: {ingress: [{action: Allow, source: " +
				"{services: {name: a}}}], egress: [{action: Deny, destination: {services: {name: a, namespace: b}}}]}",
			&policy.Policy{
				Namespace: "shop", Name: "x",
				Ingress: []policy.Rule{
					{Action: policy.Allow, Source: policy.EntityRule{Services: &policy.ServiceMatch{Name: "a"}}},
				},
				Egress: []policy.Rule{{Action: policy.Deny, Destination: policy.EntityRule{
					Services: &policy.ServiceMatch{Name: "a", Namespace: "b"},
				}}},
			},
		},
		{
			"StagedGlobalNetworkPolicy",
			"kind: StagedGlobalNetworkPolicy\nmetadata: {name: x}\nspec: {stagedAction: Set, tier: t, order: 1, " +
				"preDNAT: true, applyOnForward: true, namespaceSelector: has(a), ingress: [{action: Deny}]}",
			&policy.Policy{
				Name: "x", Staged: true, Tier: "t", Order: ptr(1.0), PreDNAT: true, ApplyOnForward: true,
				NamespaceSelector: "has(a)", Ingress: rule,
			},
		},
		{
			"StagedNetworkPolicy",
			"kind: StagedNetworkPolicy\nmetadata: {name: x}\n" +
				"spec: {stagedAction: Learn, selector: has(a), types: [Egress]}", &policy.Policy{
				Namespace: "default", Name: "x", Staged: true, Selector: "has(a)", Types: []policy.Type{policy.Egress},
			},
		},
		{
			"StagedKubernetesNetworkPolicy", "kind: StagedKubernetesNetworkPolicy\nmetadata: {name: x, namespace: " +
				"shop}\nspec: {podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: 80}]}]}",
			&policy.Policy{
				Namespace: "shop", Name: "knp.default.x", Staged: true, Tier: "default", Order: ptr(1000.0),
				Selector: `projectcalico.org/orchestrator == "k8s"`, Types: []policy.Type{policy.Ingress},
				Ingress: []policy.Rule{{
					Action: policy.Allow, Protocol: policy.ProtocolTCP,
					Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80)}},
				}},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(v3+tt.text))
			require.Empty(t, problems)
			require.Equal(t, []policy.Resource{tt.want}, resources)
		})
	}
}

// A staged policy does not replace the enforced policy of its name, and does not change verdicts.
func TestStagedPolicyDoesNotChangeVerdicts(t *testing.T) {
	staged := v3 + "kind: StagedKubernetesNetworkPolicy\nmetadata: {name: test, namespace: shop}\n" +
		"spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{}]}\n---\n" +
		v3 + "kind: StagedGlobalNetworkPolicy\nmetadata: {name: all}\n" +
		"spec: {ingress: [{action: Deny}], egress: [{action: Deny}]}\n---\n"
	resources, problems := manifest.Decode("test.yaml", []byte(cluster+isolateWeb+staged))
	require.Empty(t, problems)
	check(t, resources, []probe{{rat, web, tcp, 80, no}, {cart, web, tcp, 80, yes}, {web, rat, tcp, 80, yes}})
}

// No staged policy is created for the actions Delete and Ignore, nor for unknown actions. Only the
// latter are not ErrIgnored.
func TestStagedActionsWithoutPolicy(t *testing.T) {
	for _, kind := range []string{"StagedGlobalNetworkPolicy", "StagedNetworkPolicy", "StagedKubernetesNetworkPolicy"} {
		for action, ignored := range map[string]bool{"Delete": true, "Ignore": true, "set": false, "Remove": false} {
			resources, problems := manifest.Decode("test.yaml",
				[]byte(v3+"kind: "+kind+"\nmetadata: {name: x}\nspec: {stagedAction: "+action+"}"))
			require.Empty(t, resources)
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0], "spec.stagedAction")
			if ignored {
				require.ErrorIs(t, problems[0], convert.ErrIgnored)
			} else {
				require.NotErrorIs(t, problems[0], convert.ErrIgnored)
			}
		}
	}
}

// kindCase is an object and the resources to which it is converted.
type kindCase struct {
	name, text string
	want       []policy.Resource
}

func TestCalicoEndpoints(t *testing.T) {
	runKinds(t, []kindCase{
		{"HostEndpoint", `
kind: HostEndpoint
metadata: {name: n1-eth0, labels: {role: node}}
spec:
  node: n1
  interfaceName: eth0
  expectedIPs: [192.0.2.1, "::ffff:192.0.2.1", "fd00::1"]
  profiles: [a, b]
  ports:
  - {name: ssh, protocol: TCP, port: 22}
  - {name: dns, protocol: 17, port: 53}
  - {name: ssh, protocol: tcp, port: 22}
`, []policy.Resource{&policy.HostEndpoint{
			Name: "n1-eth0", Node: "n1", InterfaceName: "eth0",
			ExpectedIPs: []netip.Addr{addr("192.0.2.1"), addr("fd00::1")}, Labels: map[string]string{"role": "node"},
			Profiles: []string{"a", "b"}, Ports: []policy.EndpointPort{
				{Name: "ssh", Protocol: policy.ProtocolTCP, Port: 22},
				{Name: "dns", Protocol: policy.ProtocolUDP, Port: 53},
			},
		}}},
		{
			"HostEndpoint for all interfaces",
			"kind: HostEndpoint\nmetadata: {name: x}\nspec: {node: n1, interfaceName: '*'}",
			[]policy.Resource{&policy.HostEndpoint{Name: "x", Node: "n1", InterfaceName: policy.AllInterfaces}},
		},
		{"WorkloadEndpoint", `
kind: WorkloadEndpoint
metadata:
  name: n1-k8s-web-eth0
  namespace: shop
  labels: {app: web, projectcalico.org/namespace: shop, projectcalico.org/orchestrator: k8s}
spec:
  orchestrator: k8s
  workload: ""
  node: n1
  containerID: abc
  pod: web
  endpoint: eth0
  serviceAccountName: robot
  ipNetworks: [10.0.0.1/32, "fd00::1/128", 10.0.0.2]
  ipNATs: [{internalIP: 10.0.0.1, externalIP: 203.0.113.1}]
  ipv4Gateway: 169.254.1.1
  profiles: [kns.shop, ksa.shop.robot]
  interfaceName: cali0123
  mac: 66-3E-CA-A4-DB-65
  ports: [{name: http, protocol: TCP, port: 80, hostPort: 8080, hostIP: ""}, {protocol: TCP, port: 81, hostPort: 8081}]
  allowSpoofedSourcePrefixes: [10.9.1.1/16]
  qosControls: {ingressBandwidth: 1000}
`, []policy.Resource{&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "n1-k8s-web-eth0", Node: "n1", Interface: "cali0123", MAC: "66:3e:ca:a4:db:65",
			Addresses: []netip.Addr{addr("10.0.0.1"), addr("fd00::1"), addr("10.0.0.2")},
			Labels: map[string]string{
				"app": "web", "projectcalico.org/namespace": "shop", "projectcalico.org/orchestrator": "k8s",
				"projectcalico.org/serviceaccount": "robot", "pcns.projectcalico.org/name": "shop",
				"pcns.kubernetes.io/metadata.name": "shop", "pcsa.projectcalico.org/name": "robot",
			},
			Ports:                      []policy.EndpointPort{{Name: "http", Protocol: policy.ProtocolTCP, Port: 80}},
			Profiles:                   []string{"kns.shop", "ksa.shop.robot"},
			IPNATs:                     []policy.IPNAT{{InternalIP: addr("10.0.0.1"), ExternalIP: addr("203.0.113.1")}},
			AllowSpoofedSourcePrefixes: policy.Nets{prefix("10.9.0.0/16")},
		}}},
	})
}

func TestCalicoNetwork(t *testing.T) {
	runKinds(t, []kindCase{
		{"IPPool", `
kind: IPPool
metadata: {name: pool}
spec:
  cidr: 10.244.1.1/16
  vxlanMode: CrossSubnet
  ipipMode: Never
  natOutgoing: true
  disabled: true
  disableBGPExport: false
  blockSize: 26
  nodeSelector: all()
  allowedUses: [Workload, Tunnel]
  assignmentMode: Automatic
`, []policy.Resource{&policy.IPPool{
			Name: "pool", CIDR: prefix("10.244.0.0/16"), VXLANMode: policy.EncapCrossSubnet,
			IPIPMode: policy.EncapNever, NATOutgoing: true, Disabled: true,
		}}},
		{"Node", `
kind: Node
metadata: {name: n1, labels: {zone: a}}
spec:
  addresses:
  - {address: 192.0.2.1, type: InternalIP}
  - {address: n1, type: Hostname}
  - {address: 203.0.113.5/24, type: ExternalIP}
  - {address: "fd00::2"}
  bgp:
    {ipv4Address: 192.0.2.1/24, ipv6Address: "fd00::1/64", asNumber: 64512, ipv4IPIPTunnelAddr: 10.244.1.1,
     routeReflectorClusterID: ""}
  orchRefs: [{nodeName: n1, orchestrator: k8s}]
  ipv4VXLANTunnelAddr: 10.244.1.0
  ipv6VXLANTunnelAddr: "fd00:244::"
  vxlanTunnelMACAddr: 66:3e:ca:a4:db:65
  vxlanTunnelMACAddrV6: 66:3e:ca:a4:db:66
  wireguard: {interfaceIPv4Address: 10.244.1.9, interfaceIPv6Address: "fd00:244::9"}
status: {podCIDRs: [10.244.1.0/24], wireguardPublicKey: jQRCQ2kHpoQZXCXzKGbVWRXVXJH6s8V7qUCkh1HSAlE=,
  wireguardPublicKeyV6: x}
`, []policy.Resource{
			&policy.Node{
				Name: "n1", Labels: map[string]string{"zone": "a"},
				Addresses: []netip.Prefix{
					prefix("192.0.2.1/24"), prefix("fd00::1/64"), prefix("203.0.113.5/24"), prefix("fd00::2/128"),
				},
				IPv4VXLANTunnelAddr: addr("10.244.1.0"), IPv6VXLANTunnelAddr: addr("fd00:244::"),
				IPv4IPIPTunnelAddr: addr("10.244.1.1"),
				VXLANTunnelMACAddr: "66:3e:ca:a4:db:65", VXLANTunnelMACAddrV6: "66:3e:ca:a4:db:66",
				IPv4WireguardAddr: addr("10.244.1.9"), IPv6WireguardAddr: addr("fd00:244::9"),
				WireguardKeys: []policy.WireguardKey{
					{PublicKey: "jQRCQ2kHpoQZXCXzKGbVWRXVXJH6s8V7qUCkh1HSAlE=", Port: 51820},
				},
			},
			&policy.NetworkSet{
				Name: "knode.n1",
				Labels: map[string]string{
					"wayleave.dev/node.zone": "a", "wayleave.dev/node.projectcalico.org/name": "n1",
				}, Nets: policy.Nets{
					prefix("192.0.2.1/32"), prefix("fd00::1/128"), prefix("203.0.113.5/32"), prefix("fd00::2/128"),
					// The addresses of the node's tunnel devices: VXLAN, IP in IP, and WireGuard.
					prefix("10.244.1.0/32"), prefix("fd00:244::/128"), prefix("10.244.1.1/32"),
					prefix("10.244.1.9/32"), prefix("fd00:244::9/128"),
				},
			},
		}},
		{
			"Node with nothing", "kind: Node\nmetadata: {name: n1}\nspec: {}",
			[]policy.Resource{
				&policy.Node{Name: "n1"},
				&policy.NetworkSet{
					Name: "knode.n1", Labels: map[string]string{"wayleave.dev/node.projectcalico.org/name": "n1"},
				},
			},
		},
	})
}

func runKinds(t *testing.T, tests []kindCase) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(v3+strings.TrimPrefix(tt.text, "\n")))
			require.Empty(t, problems)
			require.Len(t, resources, len(tt.want))
			for i := range tt.want {
				require.True(t, policy.Equal(tt.want[i], resources[i]), "want %+v\ngot  %+v", tt.want[i], resources[i])
			}
		})
	}
}

func TestInvalidCalicoKindIsAbsent(t *testing.T) {
	host := func(spec string) string { return "kind: HostEndpoint\nmetadata: {name: x}\nspec: " + spec }
	workload := func(spec string) string {
		return "kind: WorkloadEndpoint\nmetadata: {name: x}\nspec: {node: n1, interfaceName: i0, " + spec + "}"
	}
	pool := func(spec string) string { return "kind: IPPool\nmetadata: {name: x}\nspec: " + spec }
	node := func(spec string) string { return "kind: Node\nmetadata: {name: x}\nspec: " + spec }
	tests := []struct {
		name, text string
		fields     []string
	}{
		{"host endpoint: node", host("{interfaceName: eth0}"), []string{"spec.node"}},
		{"host endpoint: interface", host("{node: n1, interfaceName: a/b}"), []string{"spec.interfaceName"}},
		{"host endpoint: addresses", host("{node: n1, expectedIPs: [x, 10.0.0.1/32]}"), []string{
			"spec.expectedIPs[0]", "spec.expectedIPs[1]",
		}},
		{
			"host endpoint: ports", host("{node: n1, ports: [{name: a, protocol: TCP, port: 0}, {name: a, protocol: " +
				"x, port: 1}, {name: a, protocol: ICMP, port: 65536}]}"),
			[]string{"spec.ports[0].port", "spec.ports[1].protocol", "spec.ports[2].port"},
		},
		{
			"host endpoint: protocol without ports", host("{node: n1, ports: [{name: a, protocol: ICMP, port: 1}]}"),
			[]string{"spec.ports[0].protocol"},
		},
		{"host endpoint: unknown field", host("{node: n1, interface: eth0}"), []string{"spec.interface"}},
		{"host endpoint: null", host("{node: n1, interfaceName: null}"), []string{"spec.interfaceName"}},
		{"workload: required", "kind: WorkloadEndpoint\nmetadata: {name: x}\nspec: {}", []string{
			"spec.node", "spec.interfaceName",
		}},
		{"workload: addresses", workload("ipNetworks: [x, 10.0.0.0/8]"), []string{
			"spec.ipNetworks[0]", "spec.ipNetworks[1]",
		}},
		{"workload: loopback", workload("ipNetworks: [127.0.0.1/32]"), []string{"spec.ipNetworks[0]"}},
		{"workload: NAT", workload("ipNATs: [{internalIP: x, externalIP: y}]"), []string{
			"spec.ipNATs[0].internalIP", "spec.ipNATs[0].externalIP",
		}},
		{
			"workload: NAT of another's address", workload("ipNATs: [{internalIP: 10.0.0.1, externalIP: 10.0.0.2}]"),
			[]string{"spec.ipNATs[0].internalIP"},
		},
		{"workload: MAC", workload("mac: x"), []string{"spec.mac"}},
		{"workload: ports", workload("ports: [{name: a, protocol: TCP, port: -1}]"), []string{"spec.ports[0].port"}},
		{"workload: spoofed", workload("allowSpoofedSourcePrefixes: [x]"), []string{
			"spec.allowSpoofedSourcePrefixes[0]",
		}},
		{"pool: CIDR", pool("{cidr: x}"), []string{"spec.cidr"}},
		{"pool: no CIDR", pool("{}"), []string{"spec.cidr"}},
		{"pool: modes", pool("{cidr: 10.0.0.0/8, vxlanMode: always, ipipMode: Maybe}"), []string{
			"spec.vxlanMode", "spec.ipipMode",
		}},
		{"pool: both modes", pool("{cidr: 10.0.0.0/8, vxlanMode: Always, ipipMode: Always}"), []string{
			"spec.ipipMode",
		}},
		{
			"pool: old fields", pool("{cidr: 10.0.0.0/8, ipip: {enabled: true}, nat-outgoing: true}"),
			[]string{"spec.ipip", "spec.nat-outgoing"},
		},
		{"node: null", node("{bgp: null}"), []string{"spec.bgp"}},
		{"policy that poses as a Kubernetes one", "kind: NetworkPolicy\n" +
			"metadata: {name: knp.default.web}\nspec: {}", []string{"metadata.name"}},
		{"policy that poses as a cluster one", "kind: GlobalNetworkPolicy\n" +
			"metadata: {name: kcnp.web}\nspec: {}", []string{"metadata.name"}},
		{"set that poses as a node", "kind: GlobalNetworkSet\nmetadata: {name: knode.n1}\nspec: {}", []string{
			"metadata.name",
		}},
		{
			"profile with derived labels", "kind: Profile\nmetadata: {name: x}\n" +
				"spec: {labelsToApply: {projectcalico.org/orchestrator: k8s, wayleave.dev/node.zone: a, pcns.a: b}}",
			[]string{
				`spec.labelsToApply["projectcalico.org/orchestrator"]`, `spec.labelsToApply["wayleave.dev/node.zone"]`,
			},
		},
		{
			"staged with http", "kind: StagedGlobalNetworkPolicy\nmetadata: {name: x}\n" +
				"spec: {selector: 'a ==', ingress: [{action: Deny, http: {}}]}",
			[]string{"spec.selector", "spec.ingress[0].http"},
		},
		{"staged and null", "kind: StagedNetworkPolicy\nmetadata: {name: x}\nspec: {selector: }", []string{
			"spec.selector",
		}},
		{"staged, unknown field", "kind: StagedKubernetesNetworkPolicy\nmetadata: {name: x}\n" +
			"spec: {podSelecter: {}}", []string{"spec.podSelecter"}},
		{"staged, null", "kind: StagedKubernetesNetworkPolicy\nmetadata: {name: x}\n" +
			"spec: {podSelector: null}", []string{"spec.podSelector"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(v3+tt.text))
			require.Empty(t, resources)
			var fields []string
			for _, problem := range problems {
				var wrong *manifest.Error
				require.ErrorAs(t, problem, &wrong)
				fields = append(fields, wrong.Field)
			}
			require.ElementsMatch(t, tt.fields, fields)
		})
	}
}

// fieldsOf returns the fields of problems. It requires that no problem is ErrIgnored.
func fieldsOf(t *testing.T, problems []error) (fields []string) {
	t.Helper()
	for _, problem := range problems {
		var wrong *manifest.Error
		require.ErrorAs(t, problem, &wrong)
		require.NotErrorIs(t, problem, convert.ErrIgnored)
		fields = append(fields, wrong.Field)
	}
	return fields
}

// If an object can be a peer of deny rules, an invalid part of it is left out, and the rest is
// converted.
func TestInvalidPartOfCalicoObjectIsLeftOut(t *testing.T) {
	node := func(spec string) string { return "kind: Node\nmetadata: {name: x}\nspec: " + spec }
	workload := func(labels, spec string) string {
		return "kind: WorkloadEndpoint\nmetadata: {name: x, labels: " + labels +
			"}\nspec: {node: n1, interfaceName: i0" + spec + "}"
	}
	bareNode := []policy.Resource{&policy.Node{Name: "x"}, &policy.NetworkSet{
		Name: "knode.x", Labels: map[string]string{"wayleave.dev/node.projectcalico.org/name": "x"},
	}}
	plain := []policy.Resource{&policy.WorkloadEndpoint{
		Namespace: "default", Name: "x", Node: "n1", Interface: "i0", Labels: map[string]string{"a": "b"},
	}}
	tests := []struct {
		name, text string
		fields     []string
		want       []policy.Resource
	}{
		{
			"host endpoint: labels", "kind: HostEndpoint\nmetadata: {name: x, labels: " +
				"{projectcalico.org/orchestrator: k8s, wayleave.dev/node.zone: a, a: b}}\nspec: {node: n1}",
			[]string{`metadata.labels["projectcalico.org/orchestrator"]`, `metadata.labels["wayleave.dev/node.zone"]`},
			[]policy.Resource{&policy.HostEndpoint{Name: "x", Node: "n1", Labels: map[string]string{"a": "b"}}},
		},
		{
			"workload: labels that contradict", workload("{a: b, projectcalico.org/orchestrator: k8s, "+
				"projectcalico.org/serviceaccount: a}", ", orchestrator: vm, serviceAccountName: c"),
			[]string{
				`metadata.labels["projectcalico.org/orchestrator"]`,
				`metadata.labels["projectcalico.org/serviceaccount"]`,
			},
			[]policy.Resource{&policy.WorkloadEndpoint{
				Namespace: "default", Name: "x", Node: "n1", Interface: "i0",
				Labels: map[string]string{
					"a": "b", "projectcalico.org/orchestrator": "vm", "projectcalico.org/serviceaccount": "c",
				},
			}},
		},
		{
			"workload: another namespace", workload("{projectcalico.org/namespace: b}", ""),
			[]string{`metadata.labels["projectcalico.org/namespace"]`},
			[]policy.Resource{&policy.WorkloadEndpoint{
				Namespace: "default", Name: "x", Node: "n1", Interface: "i0",
				Labels: map[string]string{"projectcalico.org/namespace": "default"},
			}},
		},
		{
			"workload: labels of others", workload("{a: b, pcns.a: b, pcsa.a: b, wayleave.dev/node.a: b}", ""),
			[]string{
				`metadata.labels["pcns.a"]`, `metadata.labels["pcsa.a"]`, `metadata.labels["wayleave.dev/node.a"]`,
			},
			plain,
		},
		{
			"node: addresses", node("{addresses: [{address: x, type: InternalIP}, {address: 127.0.0.1}], bgp: " +
				"{ipv4Address: y, ipv6Address: z}}"),
			[]string{
				"spec.addresses[0].address", "spec.addresses[1].address", "spec.bgp.ipv4Address",
				"spec.bgp.ipv6Address",
			},
			bareNode,
		},
		{
			"node: tunnel", node("{ipv4VXLANTunnelAddr: x, ipv6VXLANTunnelAddr: y, bgp: {ipv4IPIPTunnelAddr: z}}"),
			[]string{"spec.ipv4VXLANTunnelAddr", "spec.ipv6VXLANTunnelAddr", "spec.bgp.ipv4IPIPTunnelAddr"},
			bareNode,
		},
		{"node: tunnel of the other family", node("{ipv4VXLANTunnelAddr: 'fd00::1'}"), []string{
			"spec.ipv4VXLANTunnelAddr",
		}, bareNode},
		{"node: MAC", node("{vxlanTunnelMACAddr: x, " +
			"vxlanTunnelMACAddrV6: y}"), []string{"spec.vxlanTunnelMACAddr", "spec.vxlanTunnelMACAddrV6"}, bareNode},
		{
			"set with the label of a node",
			"kind: GlobalNetworkSet\nmetadata: {name: x, labels: {wayleave.dev/node.zone: a}}\nspec: {}",
			[]string{`metadata.labels["wayleave.dev/node.zone"]`},
			[]policy.Resource{&policy.NetworkSet{Name: "x"}},
		},
		{
			"set that poses as a pod of another namespace", "kind: NetworkSet\nmetadata: {name: x, labels: " +
				"{projectcalico.org/orchestrator: k8s, pcns.projectcalico.org/name: y}}\nspec: {}",
			[]string{
				`metadata.labels["pcns.projectcalico.org/name"]`, `metadata.labels["projectcalico.org/orchestrator"]`,
			},
			[]policy.Resource{&policy.NetworkSet{Namespace: "default", Name: "x", Labels: map[string]string{
				"pcns.projectcalico.org/name": "default", "pcns.kubernetes.io/metadata.name": "default",
			}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(v3+tt.text))
			require.ElementsMatch(t, tt.fields, fieldsOf(t, problems))
			require.Len(t, resources, len(tt.want))
			for i := range tt.want {
				require.True(t, policy.Equal(tt.want[i], resources[i]), "want %+v\ngot  %+v", tt.want[i], resources[i])
			}
		})
	}
}
