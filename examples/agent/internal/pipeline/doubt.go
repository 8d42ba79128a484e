// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"maps"
	"sync"

	"github.com/wayleave/wayleave/policy"
)

// Doubts returns the policies in which a rule has a field that is not understood. Such a policy is
// enforced, but the rule is closed: it allows nothing. The *policy.DoubtError of a policy lists the
// fields.
func (p *Pipeline) Doubts() map[policy.Key]error { return p.doubts.all() }

// DoubtsOf returns the entries of Doubts for those policies that a source has.
func (p *Pipeline) DoubtsOf(source string) map[policy.Key]error {
	doubts := p.doubts.all()
	maps.DeleteFunc(doubts, func(key policy.Key, _ error) bool { return p.source.Versions(key)[source] == nil })
	return doubts
}

// doubts records the policies that have doubts. It is safe for concurrent use.
type doubts struct {
	mu    sync.Mutex
	known map[policy.Key]error
}

// set records the doubts of a policy, nil for none.
func (d *doubts) set(key policy.Key, doubt *policy.DoubtError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if doubt == nil {
		delete(d.known, key)
		return
	}
	if d.known == nil {
		d.known = map[policy.Key]error{}
	}
	d.known[key] = doubt
}

func (d *doubts) all() map[policy.Key]error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := maps.Clone(d.known)
	if all == nil {
		all = map[policy.Key]error{}
	}
	return all
}
