// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"fmt"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// maxCached is the minimum number of recently used values that a cache keeps. It has at most twice
// as many.
const maxCached = 512

// cache keeps recently computed values. The zero value is empty.
type cache[K comparable, V any] struct {
	young, old map[K]V
}

func (c *cache[K, V]) get(k K) (V, bool) {
	v, ok := c.young[k]
	if ok {
		return v, true
	}
	if v, ok = c.old[k]; ok {
		c.put(k, v)
	}
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) {
	if len(c.young) >= maxCached {
		c.old, c.young = c.young, nil
	}
	if c.young == nil {
		c.young = map[K]V{}
	}
	c.young[k] = v
}

// selectorCache caches the selectors of policies: clusters have many policies and few distinct
// selectors. The zero value is empty.
type selectorCache struct {
	parsed cache[selectorText, *selector.Selector]
}

// selectorText has the fields that PolicySelector uses.
type selectorText struct {
	namespace, selector, namespaceSelector, serviceAccountSelector string
}

// of returns the result of PolicySelector.
func (c *selectorCache) of(p *policy.Policy) (*selector.Selector, error) {
	text := selectorText{p.Namespace, p.Selector, p.NamespaceSelector, p.ServiceAccountSelector}
	if sel, ok := c.parsed.get(text); ok {
		return sel, nil
	}
	sel, err := PolicySelector(p)
	if err == nil {
		c.parsed.put(text, sel)
	}
	return sel, err
}

// peerCache caches the sets for the selectors of rules. The zero value is empty.
type peerCache struct {
	known cache[peerText, *peerSets]
}

// peerText has the fields that peersOf uses.
type peerText struct {
	namespace, selector, notSelector, namespaceSelector string
	accounts                                            bool
	accountNames, accountSelector                       string
}

// peerSets has the sets for one side of a rule.
type peerSets struct {
	match, not *IPSetSpec         // nil means no limit
	ports      *selector.Selector // as in peers
}

// of returns the sets for one side of a rule, in a policy of the namespace. Errors are those of
// peersOf.
func (c *peerCache) of(namespace string, e *policy.EntityRule) (*peerSets, error) {
	text := peerText{
		namespace: namespace, selector: e.Selector, notSelector: e.NotSelector, namespaceSelector: e.NamespaceSelector,
	}
	if a := e.ServiceAccounts; a != nil {
		text.accounts, text.accountNames, text.accountSelector = true, fmt.Sprintf("%q", a.Names), a.Selector
	}
	if sets, ok := c.known.get(text); ok {
		return sets, nil
	}
	peers, err := peersOf(namespace, e)
	if err != nil {
		return nil, err
	}
	sets := &peerSets{ports: peers.Ports}
	if peers.Match != nil {
		sets.match = SelectorSet(peers.Match)
	}
	if peers.Not != nil {
		sets.not = SelectorSet(peers.Not)
	}
	c.known.put(text, sets)
	return sets, nil
}
