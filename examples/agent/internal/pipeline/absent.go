// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"sync"

	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

// Absent returns the objects that a source has as it was last told and that do not count, with the
// reason: the graph rejects them, or another source has them in another form. An endpoint that is
// in several sources is not among them: one that is registered on the node is meant to come before
// what the others know of it.
func (p *Pipeline) Absent(source string) map[policy.Key]error {
	absent := p.source.overruled(source)
	for _, key := range p.rejected.keys() {
		invalid := p.source.invalid(key)
		if len(invalid) == 0 {
			p.rejected.forget(key)
		}
		if err := invalid[source]; err != nil {
			absent[key] = err
		}
	}
	return absent
}

// invalid returns the sources that have an object in a form that the graph rejects, with the
// reason.
func (u *union) invalid(key policy.Key) map[string]error {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := map[string]error{}
	for i, objects := range u.bySource {
		o := objects.Get(key)
		if o == nil {
			continue
		}
		if admitted, err := (policy.Update{Key: key, Resource: o.Unpack()}).Admit(); admitted == nil && err != nil {
			found[u.sources[i].Name] = err
		}
	}
	return found
}

// overruled returns the objects of a source that another has in another form, which counts.
func (u *union) overruled(source string) map[policy.Key]error {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := map[policy.Key]error{}
	for key := range u.contested {
		var counts packed.Object
		var by string
		for i, objects := range u.bySource {
			o := objects.Get(key)
			if o == nil {
				continue
			}
			switch {
			case counts == nil:
				counts, by = o, u.sources[i].Name
			case u.sources[i].Name == source && !packed.Equal(counts, o):
				found[key] = fmt.Errorf("pipeline: %s: %s has it in another form, which counts", key, by)
			}
		}
	}
	return found
}

// rejections are the objects that the graph has rejected, and maybe takes by now. It is safe for
// concurrent use.
type rejections struct {
	mu   sync.Mutex
	seen map[policy.Key]struct{}
}

func (r *rejections) note(key policy.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[policy.Key]struct{}{}
	}
	r.seen[key] = struct{}{}
}

func (r *rejections) forget(key policy.Key) {
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
