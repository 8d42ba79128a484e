// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/wayleave/wayleave/policy"
)

// The language of updates: one object a line, "kind name key value ...", a rule of the
// object above on an indented line. Values with spaces stand in backquotes.
//
//	tier sec order 10 default Pass
//	policy shop/web tier sec order 10 types Ingress select `app == "web"` [staged] [always] [forward] [untracked] [prednat]
//	  ingress Allow proto TCP src `role == "fe"` dst.ports 80,http
//	  egress Deny dst.nets 10.0.0.0/8
//	profile prod labels env=prod
//	endpoint shop/web1 addrs 10.0.0.1,fd00::1 labels app=web profiles prod ports http=TCP:80 [node n2] [down]
//	  (also natips 192.0.2.1=10.0.0.1 and sources 10.7.0.0/16)
//	hostep eth0 interface eth0 addrs 192.168.0.1 labels role=host profiles prod ports ssh=TCP:22 [node n2]
//	service shop/web-1 of web addrs 10.0.0.1 serves TCP:80,UDP:53
//	netset bad labels role=bad nets 10.9.0.0/16
//	delete Policy/shop/web
//	insync
//
// Pools, blocks and nodes are in route_dsl_test.go.
//
// The keys of a rule's sides are src and dst (a selector), and src.not, src.ns, src.nets, src.notnets,
// src.ports, src.notports, src.sa, src.svc (the name of a service, or namespace/name), likewise for dst.

func parseUpdates(text string) (updates []policy.Update, synced bool, err error) {
	synced = false
	for n, line := range strings.Split(text, "\n") {
		words := split(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if line[0] == ' ' {
			err = parseRule(updates[len(updates)-1].Resource, words)
		} else if words[0] == "insync" {
			synced = true
		} else {
			var u policy.Update
			u, err = parseObject(words)
			updates = append(updates, u)
		}
		if err != nil {
			return nil, false, fmt.Errorf("line %d: %s: %w", n+1, line, err)
		}
	}
	return updates, synced, nil
}

// split returns the words of a line; what stands in backquotes is one word.
func split(line string) []string {
	quoted := false
	words := strings.FieldsFunc(line, func(r rune) bool {
		if r == '`' {
			quoted = !quoted
			return true
		}
		return !quoted && unicode.IsSpace(r)
	})
	return words
}

func parseObject(words []string) (policy.Update, error) {
	kind, name := words[0], words[1]
	namespace := ""
	if before, after, ok := strings.Cut(name, "/"); ok {
		namespace, name = before, after
	}
	fields := parseFields(words[2:])
	resource, err := parseNetworkObject(words, fields)
	if err != nil {
		return policy.Update{}, err
	}
	if resource != nil {
		return policy.Update{Key: resource.Key(), Resource: resource}, nil
	}
	switch kind {
	case "delete":
		if cidr, ok := strings.CutPrefix(words[1], string(policy.KindBlock)+"/"); ok {
			return policy.Update{Key: policy.Key{Kind: policy.KindBlock, Name: cidr}}, nil
		}
		parts := strings.Split(words[1], "/")
		key := policy.Key{Kind: policy.Kind(parts[0]), Name: parts[len(parts)-1]}
		if len(parts) == 3 {
			key.Namespace = parts[1]
		}
		return policy.Update{Key: key}, nil
	case "tier":
		resource = &policy.Tier{Name: name, Order: fields.order(), DefaultAction: policy.Action(fields["default"])}
	case "policy":
		resource = parsePolicy(namespace, name, fields)
	case "profile":
		resource = &policy.Profile{Name: name, LabelsToApply: fields.labels()}
	case "endpoint":
		w, err := parseEndpoint(namespace, name, fields)
		if err != nil {
			return policy.Update{}, err
		}
		resource = w
	case "netset":
		nets, err := parseNets(fields.list("nets"))
		if err != nil {
			return policy.Update{}, err
		}
		resource = &policy.NetworkSet{Namespace: namespace, Name: name, Labels: fields.labels(), Nets: nets}
	case "hostep":
		h, err := parseHostEndpoint(name, fields)
		if err != nil {
			return policy.Update{}, err
		}
		resource = h
	case "service":
		part, err := parseService(namespace, name, fields)
		if err != nil {
			return policy.Update{}, err
		}
		resource = part
	default:
		return policy.Update{}, fmt.Errorf("unknown kind %q", kind)
	}
	return policy.Update{Key: resource.Key(), Resource: resource}, nil
}

func parsePolicy(namespace, name string, fields fields) *policy.Policy {
	p := &policy.Policy{
		Namespace: namespace, Name: name, Tier: fields["tier"], Order: fields.order(),
		Selector: fields["select"], NamespaceSelector: fields["ns"], ServiceAccountSelector: fields["sa"],
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
		Namespace: namespace, Name: name, Node: node, Interface: "wl" + name,
		Labels: fields.labels(), Profiles: fields.list("profiles"),
	}
	if n := fields["node"]; n != "" {
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

func parseRule(owner policy.Resource, words []string) error {
	fields := parseFields(words[2:])
	rule := policy.Rule{Action: policy.Action(words[1])}
	var err error
	if s := fields["proto"]; s != "" {
		if rule.Protocol, err = policy.ParseProtocol(s); err != nil {
			return err
		}
	}
	if s := fields["notproto"]; s != "" {
		if rule.NotProtocol, err = policy.ParseProtocol(s); err != nil {
			return err
		}
	}
	if s := fields["ip"]; s != "" {
		if rule.IPVersion, err = strconv.Atoi(s); err != nil {
			return err
		}
	}
	if rule.Source, err = parseSide("src", fields); err != nil {
		return err
	}
	if rule.Destination, err = parseSide("dst", fields); err != nil {
		return err
	}
	var ingress, egress *[]policy.Rule
	switch o := owner.(type) {
	case *policy.Policy:
		ingress, egress = &o.Ingress, &o.Egress
	case *policy.Profile:
		ingress, egress = &o.Ingress, &o.Egress
	default:
		return fmt.Errorf("%s has no rules", owner.Key())
	}
	list := ingress
	if words[0] == "egress" {
		list = egress
	}
	*list = append(*list, rule)
	return nil
}

func parseSide(side string, fields fields) (policy.EntityRule, error) {
	e := policy.EntityRule{
		Selector:          fields[side],
		NotSelector:       fields[side+".not"],
		NamespaceSelector: fields[side+".ns"],
	}
	if svc := fields[side+".svc"]; svc != "" {
		e.Services = &policy.ServiceMatch{Name: svc}
		if namespace, name, ok := strings.Cut(svc, "/"); ok {
			e.Services = &policy.ServiceMatch{Namespace: namespace, Name: name}
		}
	}
	if names := fields.list(side + ".sa"); names != nil {
		e.ServiceAccounts = &policy.ServiceAccounts{Names: names}
	}
	var err error
	if e.Nets, err = parseNets(fields.list(side + ".nets")); err != nil {
		return e, err
	}
	if e.NotNets, err = parseNets(fields.list(side + ".notnets")); err != nil {
		return e, err
	}
	if e.Ports, err = parsePorts(fields.list(side + ".ports")); err != nil {
		return e, err
	}
	e.NotPorts, err = parsePorts(fields.list(side + ".notports"))
	return e, err
}

func parseNets(list []string) (policy.Nets, error) {
	var out policy.Nets
	for _, s := range list {
		net, err := policy.ParseNet(s)
		if err != nil {
			return nil, err
		}
		out = append(out, net)
	}
	return out, nil
}

func parsePorts(list []string) ([]policy.Port, error) {
	var out []policy.Port
	for _, s := range list {
		port, err := policy.ParsePort(s)
		if err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}

// fields are the keys and values of a line. Flags have the value "yes".
type fields map[string]string

func parseFields(words []string) fields {
	out := fields{}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; word {
		case "staged", "always", "down", "forward", "untracked", "prednat", "nat", "disabled":
			out[word] = "yes"
		default:
			if i+1 < len(words) {
				out[word] = words[i+1]
			}
			i++
		}
	}
	return out
}

func (f fields) has(key string) bool { return f[key] != "" }

func (f fields) list(key string) []string {
	if f[key] == "" {
		return nil
	}
	return strings.Split(f[key], ",")
}

func (f fields) order() *float64 {
	if f["order"] == "" {
		return nil
	}
	order, err := strconv.ParseFloat(f["order"], 64)
	if err != nil {
		panic(err) // a mistake in a script
	}
	return &order
}

func (f fields) labels() map[string]string {
	out := map[string]string{}
	for _, pair := range f.list("labels") {
		k, v, _ := strings.Cut(pair, "=")
		out[k] = v
	}
	return out
}
