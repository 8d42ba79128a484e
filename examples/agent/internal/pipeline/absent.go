// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"sync"

	"github.com/wayleave/wayleave/policy"
)

// Absent returns the objects of a source that are not used, with the reason. Either the graph
// rejects the object as invalid, or a source that precedes this one has the same object with other
// content. Absent leaves out workload endpoints that another source overrides, because that is
// intended. An endpoint that a CNI plugin registers with the agent overrides the same endpoint of
// other sources.
func (p *Pipeline) Absent(source string) map[policy.Key]error {
	absent := map[policy.Key]error{}
	for key, by := range p.source.Overruled(source) {
		if key.Kind != policy.KindWorkloadEndpoint {
			absent[key] = fmt.Errorf("pipeline: %s: ignored: %s has a different version, which is used", key, by)
		}
	}
	for _, key := range p.rejected.keys() {
		invalid := p.source.invalid(key)
		if len(invalid) == 0 {
			p.rejected.remove(key)
		}
		if err := invalid[source]; err != nil {
			absent[key] = err
		}
	}
	return absent
}

// invalid returns the sources whose version of an object the graph rejects, with the reason.
func (s *sources) invalid(key policy.Key) map[string]error {
	found := map[string]error{}
	for name, r := range s.Versions(key) {
		if admitted, err := (policy.Update{Key: key, Resource: r}).Admit(); admitted == nil && err != nil {
			found[name] = err
		}
	}
	return found
}

// rejections records the objects that the graph has rejected. The graph may have accepted later
// versions of some of these objects. A rejections is safe for concurrent use.
type rejections struct {
	mu   sync.Mutex
	seen map[policy.Key]struct{}
}

func (r *rejections) record(key policy.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[policy.Key]struct{}{}
	}
	r.seen[key] = struct{}{}
}

func (r *rejections) remove(key policy.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, key)
}

func (r *rejections) keys() []policy.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]policy.Key, 0, len(r.seen))
	for key := range r.seen {
		keys = append(keys, key)
	}
	return keys
}
