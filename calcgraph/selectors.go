// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"fmt"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// PolicySelector returns the selector over the effective labels of endpoints that says which
// of them the policy selects: its own selector, limited to its namespace, or to
// what namespaceSelector and serviceAccountSelector say.
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

// PeerSelectors returns what one side of a rule says of its peers: positive is the
// selector that a peer must match, nil for no limit; negative is the selector that it must
// not match. A negative selector with a positive one beside it has been merged into it.
//
// Errors: a *selector.ParseError, wrapped with the name of the field.
func PeerSelectors(namespace string, e *policy.EntityRule) (positive, negative *selector.Selector, err error) {
	var parts []*selector.Selector
	if e.NamespaceSelector != "" || e.Selector != "" || e.NotSelector != "" || e.ServiceAccounts != nil {
		if parts, err = scope(namespace, e.NamespaceSelector, "namespaceSelector"); err != nil {
			return nil, nil, err
		}
	}
	if a := e.ServiceAccounts; a != nil {
		accounts, err := accountPart(a.Names, a.Selector, "serviceAccounts.selector")
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, accounts...)
	}
	if e.Selector != "" {
		own, err := parse(e.Selector, "selector")
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, own)
	}
	if e.NotSelector != "" {
		if negative, err = parse(e.NotSelector, "notSelector"); err != nil {
			return nil, nil, err
		}
		if len(parts) == 0 {
			return nil, negative, nil
		}
		parts = append(parts, selector.Not(negative))
	}
	if len(parts) == 0 {
		return nil, nil, nil
	}
	return conjunction(parts), nil, nil
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

func conjunction(parts []*selector.Selector) *selector.Selector {
	if len(parts) == 1 {
		return parts[0]
	}
	return selector.And(parts...)
}

func parse(s, field string) (*selector.Selector, error) {
	parsed, err := selector.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return parsed, nil
}
