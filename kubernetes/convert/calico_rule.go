// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// calicoPolicyRules converts the rules of a policy. A rule that is not understood is closed and
// reported in doubts.
func calicoPolicyRules(doubts *problems, path string, rules []calico.Rule, namespaced bool) []policy.Rule {
	var out []policy.Rule
	for i := range rules {
		before := len(doubts.list)
		rule := calicoRule(doubts, fmt.Sprintf("%s[%d]", path, i), &rules[i], namespaced)
		if len(doubts.list) > before {
			if err := rulesRefusal(policy.Ingress, []policy.Rule{{Action: rule.Action}}); err != nil {
				doubts.add(fmt.Sprintf("%s[%d].action", path, i), err)
			}
			rule.Close(doubtsOf(doubts.list[before:])...)
		}
		out = append(out, rule)
	}
	return out
}

// calicoProfileRules converts the rules of a profile.
func calicoProfileRules(p *problems, path string, rules []calico.Rule) []policy.Rule {
	var out []policy.Rule
	for i := range rules {
		out = append(out, calicoRule(p, fmt.Sprintf("%s[%d]", path, i), &rules[i], false))
	}
	return out
}

// calicoRule converts a rule. Selectors of a namespaced policy match only its own namespace, unless
// the rule has a namespace selector. So they never match nodes.
func calicoRule(p *problems, path string, rule *calico.Rule, namespaced bool) policy.Rule {
	p.unsupported(path+".http", bool(rule.HTTP))
	out := policy.Rule{
		Action:      policy.Action(rule.Action),
		Protocol:    calicoProtocol(p, path+".protocol", rule.Protocol),
		NotProtocol: calicoProtocol(p, path+".notProtocol", rule.NotProtocol),
		HeaderMatch: policy.HeaderMatch{
			ICMP:    calicoICMP(rule.ICMP),
			NotICMP: calicoICMP(rule.NotICMP),
		},
		Source:      calicoEntity(p, path+".source", &rule.Source),
		Destination: calicoEntity(p, path+".destination", &rule.Destination),
	}
	if rule.IPVersion != nil {
		out.IPVersion = *rule.IPVersion
		if out.IPVersion != 4 && out.IPVersion != 6 {
			p.addf(path+".ipVersion", "%d is not 4 or 6", out.IPVersion)
		}
	}
	if rule.Metadata != nil && len(rule.Metadata.Annotations) > 0 {
		out.Metadata = &policy.RuleMetadata{Annotations: maps.Clone(rule.Metadata.Annotations)}
	}
	for _, side := range []*policy.EntityRule{&out.Source, &out.Destination} {
		if !namespaced || side.NamespaceSelector != "" {
			exceptNodes(side)
		}
	}
	return out
}

func calicoEntity(p *problems, path string, side *calico.EntityRule) policy.EntityRule {
	out := policy.EntityRule{
		Nets:              calicoNets(p, path+".nets", side.Nets),
		NotNets:           calicoNets(p, path+".notNets", side.NotNets),
		Selector:          side.Selector,
		NotSelector:       side.NotSelector,
		NamespaceSelector: side.NamespaceSelector,
		Ports:             calicoPorts(p, path+".ports", side.Ports),
		NotPorts:          calicoPorts(p, path+".notPorts", side.NotPorts),
	}
	if side.ServiceAccounts != nil {
		out.ServiceAccounts = &policy.ServiceAccounts{
			Names:    slices.Clone(side.ServiceAccounts.Names),
			Selector: side.ServiceAccounts.Selector,
		}
	}
	if side.Services != nil {
		out.Services = &policy.ServiceMatch{Name: side.Services.Name, Namespace: side.Services.Namespace}
	}
	return out
}

// calicoNets parses a list of nets. An empty list means none.
func calicoNets(p *problems, path string, list []string) policy.Nets {
	var nets policy.Nets
	for i, text := range list {
		net, err := policy.ParseNet(text)
		if err != nil {
			p.add(fmt.Sprintf("%s[%d]", path, i), err)
			continue
		}
		nets = append(nets, net)
	}
	return nets
}

// calicoPorts parses a list of ports. An empty list means none.
func calicoPorts(p *problems, path string, list []intstr.IntOrString) []policy.Port {
	var ports []policy.Port
	for i, value := range list {
		port, err := policy.ParsePort(value.String())
		if err != nil {
			p.add(fmt.Sprintf("%s[%d]", path, i), err)
			continue
		}
		ports = append(ports, port)
	}
	return ports
}

func calicoProtocol(p *problems, path string, value *intstr.IntOrString) policy.Protocol {
	if value == nil {
		return 0
	}
	protocol, err := policy.ParseProtocol(value.String())
	if err != nil {
		p.add(path, err)
	}
	return protocol
}

func calicoICMP(icmp *calico.ICMP) *policy.ICMP {
	if icmp == nil {
		return nil
	}
	return &policy.ICMP{Type: clonePointer(icmp.Type), Code: clonePointer(icmp.Code)}
}
