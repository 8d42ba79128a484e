// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"fmt"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// PolicySelector combines into one selector all conditions by which a policy selects endpoints. The
// conditions are the field Selector, the namespace of the policy or its NamespaceSelector, and its
// ServiceAccountSelector. The selector is for the effective labels of endpoints, which include the
// labels of their profiles.
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
	// Match is the selector for peers. It combines the conditions for namespaces, service accounts
	// and labels. If there is at least one of these, it also excludes what the negated selector
	// matches.
	Match *selector.Selector
	// Not is the selector that peers must not match. It is set only if Match is nil.
	Not *selector.Selector
	// Ports is the selector for endpoints whose named ports are looked up: Match without the
	// negated selector.
	Ports *selector.Selector
}

// peersOf returns the selectors of one side of a rule, in a policy of the namespace.
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

// scope returns the part of a selector that limits it to namespaces. A namespace selector is for
// the labels of a namespace. Endpoints have these labels, too, with a prefix. In a namespace
// selector, all() matches objects in any namespace, and global() matches objects that are in none.
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
