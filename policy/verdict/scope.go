// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// scope is a set of endpoints and network sets: those that match every part.
type scope []part

// part is one condition of a scope.
type part struct {
	field, text string
	holds       func(*object) bool
}

// scopeFields are the fields by which policies select endpoints and rules select peers. They have
// the same meaning in both. Empty fields are no condition.
type scopeFields struct {
	namespace         string
	namespaceSelector string
	accountNames      []string
	accountSelector   string
	selector          string
}

func compileScope(f scopeFields) (scope, error) {
	var s scope
	if f.namespace != "" {
		s = append(s, part{"namespace", fmt.Sprintf("namespace == %q", f.namespace), func(o *object) bool {
			return o.key.Namespace == f.namespace
		}})
	}
	if f.namespaceSelector != "" {
		sel, err := parseNamespaceSelector(f.namespaceSelector)
		if err != nil {
			return nil, fmt.Errorf("namespaceSelector: %w", err)
		}
		s = append(s, part{"namespaceSelector", "namespaceSelector (" + f.namespaceSelector + ")", sel.selects})
	}
	if len(f.accountNames) > 0 {
		text := "serviceAccount in (" + strings.Join(f.accountNames, ", ") + ")"
		s = append(s, part{"serviceAccounts.names", text, func(o *object) bool {
			name, ok := o.labels[policy.LabelServiceAccount]
			return ok && slices.Contains(f.accountNames, name)
		}})
	}
	if f.accountSelector != "" {
		sel, err := selector.Parse(f.accountSelector)
		if err != nil {
			return nil, fmt.Errorf("service account selector: %w", err)
		}
		text := "serviceAccountSelector (" + f.accountSelector + ")"
		s = append(s, part{"serviceAccounts.selector", text, func(o *object) bool {
			return sel.Match(prefixed{policy.ServiceAccountLabelPrefix, o.labels})
		}})
	}
	if f.selector != "" {
		sel, err := selector.Parse(f.selector)
		if err != nil {
			return nil, fmt.Errorf("selector: %w", err)
		}
		s = append(s, part{"selector", f.selector, func(o *object) bool { return sel.Match(o.labels) }})
	}
	return s, nil
}

// selects reports whether the object is in the scope.
func (s scope) selects(o *object) bool {
	return !slices.ContainsFunc(s, func(p part) bool { return !p.holds(o) })
}

// namespaceSelector is a selector on the labels of namespaces. all() there means "in a namespace",
// and global() means "in none". So it has one form for objects with a namespace and one for those
// without.
type namespaceSelector struct {
	namespaced, global *selector.Selector
}

func parseNamespaceSelector(text string) (namespaceSelector, error) {
	sel, err := selector.Parse(text)
	if err != nil {
		return namespaceSelector{}, err
	}
	nothing := selector.Not(selector.All())
	read := func(all, global *selector.Selector) *selector.Selector {
		return sel.MapTerms(func(t selector.Term) *selector.Selector {
			switch t.Op {
			case selector.OpAll:
				return all
			case selector.OpGlobal:
				return global
			default:
				return t.Selector()
			}
		})
	}
	return namespaceSelector{
		namespaced: read(selector.All(), nothing),
		global:     read(nothing, selector.All()),
	}, nil
}

func (s namespaceSelector) selects(o *object) bool {
	labels := prefixed{policy.NamespaceLabelPrefix, o.labels}
	if o.key.Namespace == "" {
		return s.global.Match(labels)
	}
	return s.namespaced.Match(labels)
}

// prefixed has the labels of an object's namespace or service account, without the prefix that they
// have on the object.
type prefixed struct {
	prefix string
	labels selector.Map
}

// Get implements selector.Labels.
func (p prefixed) Get(name string) (string, bool) { return p.labels.Get(p.prefix + name) }
