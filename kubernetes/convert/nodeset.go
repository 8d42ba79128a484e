// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"net/netip"
	"slices"
	"strings"
	"unique"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// NodeLabelPrefix is the prefix of labels that come from a Node. Converter.Node and
// Converter.CalicoNode return a network set with the addresses of the node and of its tunnel
// devices, so that a Calico policy can select nodes. The set has each label of the Node, with this
// prefix before the label's name. For example, the label kubernetes.io/os of a Node becomes
// wayleave.dev/node.kubernetes.io/os:
//
//	selector: wayleave.dev/node.kubernetes.io/os == "linux"
//
// The set also has the label wayleave.dev/node.projectcalico.org/name. Its value is the name of the
// node.
const NodeLabelPrefix = "wayleave.dev/node."

const (
	// nodeSetPrefix is the prefix of the name of a node's network set.
	nodeSetPrefix = "knode."
	// labelNodeName is a label of the network set of every node, and of nothing else.
	labelNodeName = NodeLabelPrefix + labelName
)

// nodeSet returns the network set of a node. It has the given addresses, and those of the node's
// tunnel devices: the node also sends from these, and its services listen on them. Rules select
// nodes by the labels of this set.
func nodeSet(node *policy.Node, addresses []netip.Prefix) *policy.NetworkSet {
	labels := make(map[string]string, len(node.Labels)+1)
	for k, v := range node.Labels {
		labels[NodeLabelPrefix+k] = v
	}
	labels[labelNodeName] = node.Name
	for _, a := range node.TunnelAddresses() {
		if a.IsValid() {
			addresses = addSubnet(addresses, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	set := &policy.NetworkSet{Name: nodeSetPrefix + node.Name, Labels: labels}
	for _, a := range addresses {
		set.Nets = append(set.Nets, netip.PrefixFrom(a.Addr(), a.Addr().BitLen()))
	}
	return set
}

// nodeSelector converts a selector over the labels of nodes to a selector that matches only network
// sets of nodes.
func nodeSelector(s *selector.Selector) *selector.Selector {
	marked := selector.Has(labelNodeName)
	if s == nil || s.ID() == selector.All().ID() {
		return marked
	}
	return selector.And(marked, s.PrefixLabels(NodeLabelPrefix))
}

// exceptNodes excludes the network sets of nodes from the peers of a Calico rule. Calico has no
// such sets, so its users do not expect that selectors match them. A selector that can match
// because labels are absent, such as all() or !has(role), would do so. The function does not change
// a selector that contains a label of nodes.
//
// It does not change an invalid selector either, because the object is refused for it.
func exceptNodes(e *policy.EntityRule) {
	if e.NotSelector != "" && nodesMatch(e.NotSelector) {
		e.NotSelector = withoutNodes(e.NotSelector)
	}
	accounts := e.ServiceAccounts
	if e.Selector == "" && e.NamespaceSelector == "" && accounts == nil {
		return // there is no selector of peers
	}
	if nodesMatch(e.Selector) && nodesMatchNamespace(e.NamespaceSelector) &&
		(accounts == nil || len(accounts.Names) == 0 && nodesMatch(accounts.Selector)) {
		e.Selector = withoutNodes(e.Selector)
	}
}

// nodesMatch reports whether a selector without labels of nodes matches the network sets of nodes.
// Such a set has no other labels, so it matches if it matches an object without labels.
func nodesMatch(text string) bool {
	sel, err := selector.Parse(text)
	return err == nil && !selectsNodes(sel) && sel.Match(nil)
}

// nodesMatchNamespace is nodesMatch for a selector over the labels of namespaces, which nodes do
// not have.
func nodesMatchNamespace(text string) bool {
	if text == "" {
		return true
	}
	sel, err := selector.Parse(text)
	if err != nil {
		return false
	}
	return sel.MapTerms(func(t selector.Term) *selector.Selector {
		if t.Op == selector.OpAll {
			return selector.Not(selector.All()) // it means "in any namespace"
		}
		return t.Selector()
	}).Match(nil)
}

func selectsNodes(sel *selector.Selector) bool {
	return slices.ContainsFunc(slices.Collect(sel.Terms()), func(t selector.Term) bool {
		return strings.HasPrefix(t.Label, NodeLabelPrefix)
	})
}

// withoutNodes limits a valid selector to objects other than the network sets of nodes.
func withoutNodes(text string) string {
	others := selector.Not(selector.Has(labelNodeName))
	sel, err := selector.Parse(text)
	if err != nil || sel.ID() == selector.All().ID() {
		return others.String()
	}
	return selector.And(sel, others).String()
}

// cloneLabels returns a copy that is never nil. Equal strings of all copies share memory, because
// many objects have the same labels.
func cloneLabels(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for key, value := range labels {
		out[unique.Make(key).Value()] = unique.Make(value).Value()
	}
	return out
}
