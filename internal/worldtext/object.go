// SPDX-License-Identifier: Apache-2.0

package worldtext

import (
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

func parseObject(words []string) (policy.Update, error) {
	kind, name := words[0], words[1]
	if kind == "delete" {
		return deletion(name), nil
	}
	namespace := ""
	if before, after, ok := strings.Cut(name, "/"); ok {
		namespace, name = before, after
	}
	fields, err := parseFields(words[2:])
	if err != nil {
		return policy.Update{}, err
	}
	var resource policy.Resource
	switch kind {
	case "tier":
		resource = &policy.Tier{Name: name, Order: fields.order, DefaultAction: policy.Action(fields.get("default"))}
	case "policy":
		resource = parsePolicy(namespace, name, fields)
	case "profile":
		resource = &policy.Profile{Name: name, LabelsToApply: fields.labels()}
	case "endpoint":
		resource, err = parseEndpoint(namespace, name, fields)
	case "netset":
		var nets policy.Nets
		nets, err = parseNets(fields.list("nets"))
		resource = &policy.NetworkSet{Namespace: namespace, Name: name, Labels: fields.labels(), Nets: nets}
	case "hostep":
		resource, err = parseHostEndpoint(name, fields)
	case "service":
		resource, err = parseService(namespace, name, fields)
	case "pool":
		resource, err = parsePool(name, fields)
	case "block":
		resource, err = parseBlock(words[1], fields)
	case "node":
		resource, err = parseNode(name, fields)
	default:
		return policy.Update{}, fmt.Errorf("unknown kind %q", kind)
	}
	if err != nil {
		return policy.Update{}, err
	}
	return policy.Update{Key: resource.Key(), Resource: resource}, nil
}

// deletion reads the key in "delete Policy/shop/web".
func deletion(name string) policy.Update {
	if cidr, ok := strings.CutPrefix(name, string(policy.KindBlock)+"/"); ok {
		return policy.Update{Key: policy.Key{Kind: policy.KindBlock, Name: cidr}}
	}
	parts := strings.Split(name, "/")
	key := policy.Key{Kind: policy.Kind(parts[0]), Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		key.Namespace = parts[1]
	}
	return policy.Update{Key: key}
}

func parsePolicy(namespace, name string, fields fields) *policy.Policy {
	p := &policy.Policy{
		Namespace: namespace, Name: name, Tier: fields.get("tier"), Order: fields.order,
		Selector: fields.get("select"), NamespaceSelector: fields.get("ns"), ServiceAccountSelector: fields.get("sa"),
		Staged: fields.has("staged"), ApplyOnForward: fields.has("forward"),
		DoNotTrack: fields.has("untracked"), PreDNAT: fields.has("prednat"),
	}
	for _, typ := range fields.list("types") {
		p.Types = append(p.Types, policy.Type(typ))
	}
	if fields.has("always") {
		p.PerformanceHints = []policy.PerformanceHint{policy.AssumeNeededOnEveryNode}
	}
	return p
}

func parseEndpoint(namespace, name string, fields fields) (*policy.WorkloadEndpoint, error) {
	w := &policy.WorkloadEndpoint{
		Namespace: namespace, Name: name, Node: Node, Interface: "wl" + name,
		Labels: fields.labels(), Profiles: fields.list("profiles"),
	}
	if n := fields.get("node"); n != "" {
		w.Node = n
	}
	if fields.has("down") {
		w.AdminState = policy.AdminDown
	}
	var err error
	if w.Addresses, err = parseAddrs(fields.list("addrs")); err != nil {
		return nil, err
	}
	if w.Ports, err = parseEndpointPorts(fields.list("ports")); err != nil {
		return nil, err
	}
	for _, s := range fields.list("natips") {
		external, internal, _ := strings.Cut(s, "=")
		pair, err := parseAddrs([]string{external, internal})
		if err != nil {
			return nil, err
		}
		w.IPNATs = append(w.IPNATs, policy.IPNAT{ExternalIP: pair[0], InternalIP: pair[1]})
	}
	if w.AllowSpoofedSourcePrefixes, err = parseNets(fields.list("sources")); err != nil {
		return nil, err
	}
	return w, nil
}

func parseHostEndpoint(name string, fields fields) (*policy.HostEndpoint, error) {
	h := &policy.HostEndpoint{
		Name: name, Node: Node, InterfaceName: fields.get("interface"),
		Labels: fields.labels(), Profiles: fields.list("profiles"),
	}
	if n := fields.get("node"); n != "" {
		h.Node = n
	}
	var err error
	if h.ExpectedIPs, err = parseAddrs(fields.list("addrs")); err != nil {
		return nil, err
	}
	h.Ports, err = parseEndpointPorts(fields.list("ports"))
	return h, err
}

func parseService(namespace, name string, fields fields) (*policy.ServiceBackends, error) {
	part := &policy.ServiceBackends{Namespace: namespace, Name: name, Service: fields.get("of")}
	var err error
	if part.Addresses, err = parseAddrs(fields.list("addrs")); err != nil {
		return nil, err
	}
	for _, s := range fields.list("serves") {
		port, err := parseProtocolPort(s)
		if err != nil {
			return nil, err
		}
		part.Ports = append(part.Ports, policy.ServicePort{Protocol: port.Protocol, Port: port.Port})
	}
	return part, nil
}
