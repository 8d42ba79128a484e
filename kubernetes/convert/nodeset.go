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

// NodeLabelPrefix stands before the labels of a node on the network set of its addresses. A
// Calico policy reaches the nodes in this way:
//
//	selector: wayleave.dev/node.kubernetes.io/os == "linux"
//
// The label projectcalico.org/name is always there behind the prefix, with the node's name.
const NodeLabelPrefix = "wayleave.dev/node."

const (
	// nodeSetPrefix stands before the name of a node in that of the network set.
	nodeSetPrefix = "knode."
	// labelNodeName is on every node's network set and on nothing else.
	labelNodeName = NodeLabelPrefix + labelName
)

// nodeSet returns the network set of a node's addresses, by which rules find nodes.
func nodeSet(name string, nodeLabels map[string]string, addresses []netip.Prefix) *policy.NetworkSet {
	labels := make(map[string]string, len(nodeLabels)+1)
	for k, v := range nodeLabels {
		labels[NodeLabelPrefix+k] = v
	}
	labels[labelNodeName] = name
	set := &policy.NetworkSet{Name: nodeSetPrefix + name, Labels: labels}
	for _, a := range addresses {
		set.Nets = append(set.Nets, netip.PrefixFrom(a.Addr(), a.Addr().BitLen()))
	}
	return set
}

// nodeSelector makes a selector over the labels of nodes into one that only their network sets
// match.
func nodeSelector(s *selector.Selector) *selector.Selector {
	marked := selector.Has(labelNodeName)
	if s == nil || s.ID() == selector.All().ID() {
		return marked
	}
	return selector.And(marked, s.PrefixLabels(NodeLabelPrefix))
}

// exceptNodes keeps the network sets of nodes out of the peers of a Calico rule. To Calico there
// are no such sets, so a selector that could match for want of labels, such as all() or !has(role),
// would otherwise take in the nodes. One that names a label of nodes means them and is left as it
// is.
//
// Selectors that do not parse are left alone too: the object is refused because of them.
func exceptNodes(e *policy.EntityRule) {
	if e.NotSelector != "" && nodesMatch(e.NotSelector) {
		e.NotSelector = withoutNodes(e.NotSelector)
	}
	accounts := e.ServiceAccounts
	if e.Selector == "" && e.NamespaceSelector == "" && accounts == nil {
		return // says nothing of its peers
	}
	if nodesMatch(e.Selector) && nodesMatchNamespace(e.NamespaceSelector) &&
		(accounts == nil || len(accounts.Names) == 0 && nodesMatch(accounts.Selector)) {
		e.Selector = withoutNodes(e.Selector)
	}
}

// nodesMatch reports whether the network sets of nodes match a selector that does not ask for
// labels of nodes: they have no others.
func nodesMatch(text string) bool {
	sel, err := selector.Parse(text)
	return err == nil && !asksForNodes(sel) && sel.Match(nil)
}

// nodesMatchNamespace does so for a selector over the labels of namespaces, of which nodes have
// none.
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
			return selector.Not(selector.All()) // means "in any namespace"
		}
		return t.Selector()
	}).Match(nil)
}

func asksForNodes(sel *selector.Selector) bool {
	return slices.ContainsFunc(slices.Collect(sel.Terms()), func(t selector.Term) bool {
		return strings.HasPrefix(t.Label, NodeLabelPrefix)
	})
}

// withoutNodes limits a selector that parses to what is no node's network set.
func withoutNodes(text string) string {
	others := selector.Not(selector.Has(labelNodeName))
	sel, err := selector.Parse(text)
	if err != nil || sel.ID() == selector.All().ID() {
		return others.String()
	}
	return selector.And(sel, others).String()
}

// cloneLabels returns a copy that is never nil. Most labels are in many objects, whose copies share
// their memory.
func cloneLabels(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for key, value := range labels {
		out[unique.Make(key).Value()] = unique.Make(value).Value()
	}
	return out
}
