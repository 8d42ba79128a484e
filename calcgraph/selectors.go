// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"fmt"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// PolicySelector returns the selector over the effective labels of endpoints that decides which
// of them the policy selects: its own selector, limited to its namespace, or to
// what namespaceSelector and serviceAccountSelector require.
//
// Errors: a *selector.ParseError, wrapped with the name of the field.
func PolicySelector(p *policy.Policy) (*selector.Selector, error) {
	parts, err := scope(p.Namespace, p.NamespaceSelector, "namespaceSelector")
	if err != nil {
		return nil, err
	}
	accounts, err := accountPart(nil, p.ServiceAccountSelector, "serviceAccountSelector")
	if err != nil {
		return nil, err
	}
	own, err := parse(p.Selector, "selector")
	if err != nil {
		return nil, err
	}
	return conjunction(append(append(parts, accounts...), own)), nil
}

// peers has the selectors of one side of a rule. A nil selector means no limit.
type peers struct {
	// Match is what a peer must match: the namespaces, service accounts and selector, and not the
	// negated selector where there is one beside them.
	Match *selector.Selector
	// Not is what a peer must not match; set only if Match is nil.
	Not *selector.Selector
	// Ports is what an endpoint must match for its named ports to count: Match without
	// the negated selector.
	Ports *selector.Selector
}

// peersOf returns the selectors of one side of a rule, in a policy of the given namespace.
//
// Errors: a *selector.ParseError, wrapped with the name of the field.
func peersOf(namespace string, e *policy.EntityRule) (peers, error) {
	positive, err := positiveParts(namespace, e)
	if err != nil {
		return peers{}, err
	}
	p := peers{Match: conjunction(positive), Ports: conjunction(positive)}
	if e.NotSelector == "" {
		return p, nil
	}
	negative, err := parse(e.NotSelector, "notSelector")
	if err != nil {
		return peers{}, err
	}
	if len(positive) == 0 {
		p.Not = negative
	} else {
		p.Match = conjunction(append(positive, selector.Not(negative)))
	}
	return p, nil
}

func positiveParts(namespace string, e *policy.EntityRule) ([]*selector.Selector, error) {
	if e.NamespaceSelector == "" && e.Selector == "" && e.NotSelector == "" && e.ServiceAccounts == nil {
		return nil, nil
	}
	parts, err := scope(namespace, e.NamespaceSelector, "namespaceSelector")
	if err != nil {
		return nil, err
	}
	if a := e.ServiceAccounts; a != nil {
		accounts, err := accountPart(a.Names, a.Selector, "serviceAccounts.selector")
		if err != nil {
			return nil, err
		}
		parts = append(parts, accounts...)
	}
	if e.Selector != "" {
		own, err := parse(e.Selector, "selector")
		if err != nil {
			return nil, err
		}
		parts = append(parts, own)
	}
	return parts, nil
}

// scope returns the part of a selector that limits it to namespaces. A namespace selector
// sees the namespace's labels, which endpoints carry under a prefix; all() and
// global() mean "in any namespace" and "in none".
func scope(namespace, namespaceSelector, field string) ([]*selector.Selector, error) {
	if namespaceSelector == "" {
		if namespace == "" {
			return nil, nil
		}
		return []*selector.Selector{selector.Equal(policy.LabelNamespace, namespace)}, nil
	}
	parsed, err := parse(namespaceSelector, field)
	if err != nil {
		return nil, err
	}
	namespaced := selector.Has(policy.LabelNamespace)
	return []*selector.Selector{parsed.MapTerms(func(t selector.Term) *selector.Selector {
		switch t.Op {
		case selector.OpAll:
			return namespaced
		case selector.OpGlobal:
			return selector.Not(namespaced)
		default:
			return t.Selector().PrefixLabels(policy.NamespaceLabelPrefix)
		}
	})}, nil
}

// accountPart returns the part of a selector that limits it to service accounts.
func accountPart(names []string, accountSelector, field string) ([]*selector.Selector, error) {
	var parts []*selector.Selector
	if len(names) > 0 {
		parts = append(parts, selector.In(policy.LabelServiceAccount, names...))
	}
	if accountSelector != "" {
		parsed, err := parse(accountSelector, field)
		if err != nil {
			return nil, err
		}
		parts = append(parts, parsed.PrefixLabels(policy.ServiceAccountLabelPrefix))
	}
	return parts, nil
}

// conjunction returns a selector that matches what all parts match, or nil if there are none.
func conjunction(parts []*selector.Selector) *selector.Selector {
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	default:
		return selector.And(parts...)
	}
}

func parse(s, field string) (*selector.Selector, error) {
	parsed, err := selector.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return parsed, nil
}
