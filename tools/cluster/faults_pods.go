// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

const (
	proberImage = "cluster.local/prober:dev"
	// targetsFolder is where a node has the files of its clients' targets.
	targetsFolder = "/var/lib/wayleave-faults"
	// proberLabel is on everything that the scenarios make.
	proberLabel = "wayleave.dev/faults"
)

// podKind is a set of pods that are alike, one on each of some nodes.
type podKind struct {
	name, namespace, role string
	server                bool
	allowed               []string // kinds of servers; all others are denied
	firstNode             bool     // only there
	later                 bool     // made by a scenario
}

// podKinds returns the kinds of prober pods. Every kind but the servers sends to all servers,
// allowed or not. Comments name what denies a pair.
func podKinds() []podKind {
	return []podKind{
		{name: "guarded", namespace: "guarded", role: "server", server: true},
		{name: "open", namespace: "open", role: "server", server: true},
		// Allowed by pod label, to open denied by the default deny for egress of its namespace.
		{name: "friend", namespace: "guarded", role: "friend", allowed: []string{"guarded"}},
		// Allowed by namespace label, to open denied by a policy for egress.
		{name: "partner", namespace: "partners", role: "client", allowed: []string{"guarded"}},
		// To guarded denied by the default deny of that namespace.
		{name: "stranger", namespace: "strangers", role: "client", allowed: []string{"open"}},
		// To open denied by a ClusterNetworkPolicy, although a NetworkPolicy allows it.
		{name: "banned", namespace: "banned", role: "client"},
		{name: "guest", namespace: "guests", role: "client", allowed: []string{"guarded", "open"}, firstNode: true},
		{
			name: "extra", namespace: "guarded", role: "friend", allowed: []string{"guarded"}, firstNode: true,
			later: true,
		},
		{
			name: "afterbackup", namespace: "guarded", role: "friend", allowed: []string{"guarded"}, firstNode: true,
			later: true,
		},
	}
}

func (k podKind) expect(server string) probe.Verdict {
	for _, allowed := range k.allowed {
		if allowed == server {
			return probe.Allow
		}
	}
	return probe.Deny
}

// object is an object of the API.
type object = map[string]any

func namespaceName(short string) string { return "faults-" + short }

func namespaceNames() []string {
	return []string{"guarded", "open", "partners", "strangers", "banned", "guests"}
}

func newObject(version, kind, namespace, name string, labels object, spec object) object {
	all := object{proberLabel: "true"}
	for key, value := range labels {
		all[key] = value
	}
	metadata := object{"name": name, "labels": all}
	if namespace != "" {
		metadata["namespace"] = namespaceName(namespace)
	}
	out := object{"apiVersion": version, "kind": kind, "metadata": metadata}
	if spec != nil {
		out["spec"] = spec
	}
	return out
}

func namespaceObjects() []object {
	var out []object
	for _, name := range namespaceNames() {
		out = append(out, newObject("v1", "Namespace", "", namespaceName(name), object{
			"team": name, "pod-security.kubernetes.io/enforce": "privileged",
		}, nil))
	}
	return out
}

// serviceObjects returns one service for each kind of server, with its name.
func serviceObjects() []object {
	var out []object
	for _, name := range []string{"guarded", "open"} {
		out = append(out, newObject("v1", "Service", name, name, nil, object{
			"ipFamilyPolicy": "RequireDualStack",
			"selector":       object{"role": "server"},
			"ports": []object{
				{"name": "udp", "protocol": "UDP", "port": probe.UDPPort},
				{"name": "tcp", "protocol": "TCP", "port": probe.TCPPort},
			},
		}))
	}
	return out
}

func (k podKind) podObject(node string, interval string) object {
	name := k.name + "-" + node
	container := object{
		"name": "prober", "image": proberImage, "imagePullPolicy": "Never",
		"args": []string{"--name=" + name, "--targets=/targets/" + name + ".json", "--interval=" + interval},
		// Large socket buffers, and a packet socket that receives denied SYNs.
		"securityContext": object{"capabilities": object{"add": []string{"NET_ADMIN", "NET_RAW"}}},
		"volumeMounts":    []object{{"name": "targets", "mountPath": "/targets", "readOnly": true}},
	}
	if k.name == "guarded" { // kubelet's probe has to pass its default deny
		container["startupProbe"] = object{
			"tcpSocket": object{"port": probe.TCPPort}, "periodSeconds": 1, "failureThreshold": 120,
		}
	}
	return newObject("v1", "Pod", k.namespace, name, object{"role": k.role}, object{
		"nodeName":                      node,
		"automountServiceAccountToken":  false,
		"enableServiceLinks":            false,
		"terminationGracePeriodSeconds": 0,
		// The pods of a dead node start again with the node, and are not evicted.
		"tolerations": []object{{"operator": "Exists"}},
		"containers":  []object{container},
		"volumes": []object{{"name": "targets", "hostPath": object{
			"path": targetsFolder,
			"type": "DirectoryOrCreate",
		}}},
	})
}

// matches returns a selector in one of two forms with the same meaning.
func matches(other bool, key, value string) object {
	if other {
		return object{"matchExpressions": []object{{"key": key, "operator": "In", "values": []string{"nobody", value}}}}
	}
	return object{"matchLabels": object{key: value}}
}

func proberPorts(other bool) []object {
	if other {
		return []object{
			{"protocol": "TCP", "port": probe.TCPPort, "endPort": probe.TCPPort + 1},
			{"protocol": "UDP", "port": probe.UDPPort - 1, "endPort": probe.UDPPort},
		}
	}
	return []object{{"protocol": "UDP", "port": probe.UDPPort}, {"protocol": "TCP", "port": probe.TCPPort}}
}

func networkPolicy(namespace, name string, spec object) object {
	return newObject("networking.k8s.io/v1", "NetworkPolicy", namespace, name, nil, spec)
}

// allowFrom returns a policy for ingress to the guarded servers.
func allowFrom(other bool, name string, peer object) object {
	return networkPolicy("guarded", name, object{
		"podSelector": matches(other, "role", "server"),
		"policyTypes": []string{"Ingress"},
		"ingress":     []object{{"from": []object{peer}, "ports": proberPorts(other)}},
	})
}

func allowNamespace(other bool, name, team string) object {
	peer := object{"namespaceSelector": matches(other, "team", team)}
	if other {
		peer["podSelector"] = object{}
	}
	return allowFrom(other, name, peer)
}

// policyObjects returns the policies in one of two forms. Both allow and deny the same flows
// of the prober pods.
func policyObjects(other bool) []object {
	all := object{}
	if other {
		all = object{"matchExpressions": []object{{"key": "role", "operator": "Exists"}}}
	}
	subject := object{"namespaces": matches(other, "team", "open")}
	if other {
		subject = object{"pods": object{"namespaceSelector": matches(other, "team", "open"), "podSelector": object{}}}
	}
	return []object{
		networkPolicy("guarded", "default-deny", object{"podSelector": all, "policyTypes": []string{
			"Ingress",
			"Egress",
		}}),
		allowFrom(other, "allow-by-pod", object{"podSelector": matches(other, "role", "friend")}),
		allowNamespace(other, "allow-by-namespace", "partners"),
		allowNamespace(other, "allow-guests", "guests"),
		networkPolicy("guarded", "egress-of-friends", object{
			"podSelector": matches(other, "role", "friend"),
			"policyTypes": []string{"Egress"},
			"egress": []object{{
				"to": []object{{"podSelector": matches(other, "role", "server")}}, "ports": proberPorts(other),
			}},
		}),
		networkPolicy("partners", "egress-to-guarded", object{
			"podSelector": all,
			"policyTypes": []string{"Egress"},
			"egress": []object{{"to": []object{{
				"namespaceSelector": matches(other, "team", "guarded"), "podSelector": matches(other, "role", "server"),
			}}}},
		}),
		networkPolicy("open", "allow-all", object{
			"podSelector": all, "policyTypes": []string{"Ingress"}, "ingress": []object{{}},
		}),
		newObject("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy", "", "faults-deny-banned", nil, object{
			"tier": "Admin", "priority": 10, "subject": subject,
			"ingress": []object{{
				"name": "deny-banned", "action": "Deny", "from": []object{{"namespaces": matches(other, "team",
					"banned")}},
			}},
		}),
	}
}
