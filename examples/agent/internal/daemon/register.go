// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/registry"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// sourceRegistered is the name of the source that the registered endpoints are.
const sourceRegistered = "registered"

// registered are the endpoints that were registered over the socket, and those of them that may still be in the
// kernel though they are registered no more: their addresses are nobody else's yet. It is safe for concurrent use.
type registered struct {
	*registry.Registry

	mu      sync.Mutex // held from looking at who is there until that has changed
	leaving map[policy.Key][]netip.Addr
}

// openRegistry reads what is registered. The agent listens before: a CNI plugin that finds nobody listening takes the file of an
// endpoint away itself, and must not do so after it was read.
func (d *Daemon) openRegistry() error {
	if d.local.EndpointDir == "" {
		return nil
	}
	r, problems, err := registry.Open(d.local.EndpointDir)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		d.logger.Error("a registered endpoint makes no sense, so it is absent", "err", problem)
		d.reject(problem)
	}
	d.registry = &registered{Registry: r, leaving: map[policy.Key][]netip.Addr{}}
	return nil
}

// put registers an endpoint whose addresses are no other's.
func (r *registered) put(ctx context.Context, e *policy.WorkloadEndpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, addr := range e.Addresses {
		if other := r.Holder(addr); other != nil && other.Key() != e.Key() {
			return fmt.Errorf("%s is the address of %s/%s, which is registered: remove that first", addr, other.Namespace, other.Name)
		}
	}
	if err := r.Put(ctx, e); err != nil {
		return err
	}
	delete(r.leaving, e.Key())
	return nil
}

// remove forgets the endpoint of a key, or what is there by another MAC address than the one given: that it returns and leaves alone.
func (r *registered) remove(ctx context.Context, key policy.Key, mac string) (another *policy.WorkloadEndpoint, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.Get(key)
	if e != nil && mac != "" && e.MAC != mac {
		return e, nil
	}
	if err := r.Delete(ctx, key); err != nil {
		return nil, err
	}
	if e != nil {
		r.leaving[key] = e.Addresses
	}
	return nil, nil
}

// left notes that nothing of an endpoint is in the kernel any more.
func (r *registered) left(key policy.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Get(key) == nil {
		delete(r.leaving, key)
	}
}

// had returns the endpoints that may still be in the kernel with an address that another has now.
func (r *registered) had(addrs []netip.Addr) (keys []policy.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, theirs := range r.leaving {
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(theirs, a) }) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, policy.Key.Compare)
	return keys
}

var errNoRegistry = errors.New("no endpoints can be registered: the setting endpoint-dir is empty")

// limited returns the context of a request, which ends after what the request calls its timeout: whoever asks
// then still hears why.
func limited(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil {
		return nil, nil, fmt.Errorf("timeout: %w", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	return ctx, cancel, nil
}

// register registers an endpoint of this node and waits until it is programmed, and whoever had its address before is not.
func (d *Daemon) register(r *http.Request, p *pipeline.Pipeline) (any, error) {
	if d.registry == nil {
		return nil, errNoRegistry
	}
	e, err := read[policy.WorkloadEndpoint](r)
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := limited(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if e.Node == "" {
		e.Node = d.local.Node
	}
	if e.Node != d.local.Node {
		return nil, fmt.Errorf("%s is an endpoint of node %s, and this is %s", e.Key(), e.Node, d.local.Node)
	}
	for i := range e.Addresses {
		e.Addresses[i] = e.Addresses[i].Unmap()
	}
	slices.SortFunc(e.Addresses, netip.Addr.Compare)
	if err := d.registry.put(ctx, &e); err != nil {
		return nil, err
	}
	programmed := func(p *pipeline.Pipeline) error { return p.WaitProgrammed(ctx, &e) }
	if err := d.steadily(ctx, p, programmed); err != nil {
		why := d.current().Driver().Status().Endpoints[e.Key()].Err
		return nil, errors.Join(fmt.Errorf("%s is registered and not programmed yet: %w", e.Key(), err), why)
	}
	for _, key := range d.registry.had(e.Addresses) {
		if err := d.gone(ctx, p, key); err != nil {
			return nil, err
		}
	}
	return d.registration(e.Key()), nil
}

// gone waits until an endpoint that is not registered any more is out of the kernel.
func (d *Daemon) gone(ctx context.Context, p *pipeline.Pipeline, key policy.Key) error {
	err := d.steadily(ctx, p, func(p *pipeline.Pipeline) error { return p.WaitRemoved(ctx, key, sourceRegistered) })
	if err != nil {
		err = errors.Join(err, d.current().Driver().Status().LastError)
		return fmt.Errorf("%s/%s is not registered any more, and still in the kernel: %w", key.Namespace, key.Name, err)
	}
	d.registry.left(key)
	return nil
}

func keyOf(r *http.Request) policy.Key {
	q := r.URL.Query()
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: q.Get("namespace"), Name: q.Get("name")}
}

func (d *Daemon) registered(r *http.Request, _ *pipeline.Pipeline) (any, error) {
	if d.registry == nil {
		return nil, errNoRegistry
	}
	return d.registration(keyOf(r)), nil
}

// registration says how a registered endpoint is; nothing about one that is not registered.
func (d *Daemon) registration(key policy.Key) api.Registered {
	answer := api.Registered{Endpoint: d.registry.Get(key)}
	if answer.Endpoint != nil {
		s := d.current().Driver().Status().Endpoints[key]
		answer.State = s.State.String()
		if s.Err != nil {
			answer.Error = s.Err.Error()
		}
	}
	return answer
}

// unregister forgets an endpoint and waits until it is out of the kernel. One that is there with another MAC address than the one given
// stays, and is what it answers with.
func (d *Daemon) unregister(r *http.Request, p *pipeline.Pipeline) (any, error) {
	ctx, cancel, err := limited(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	key := keyOf(r)
	if d.registry == nil { // an agent before this one may have had it
		return api.Registered{}, d.steadily(ctx, p, func(p *pipeline.Pipeline) error { return p.WaitRemoved(ctx, key) })
	}
	another, err := d.registry.remove(ctx, key, r.URL.Query().Get("mac"))
	if err != nil {
		return nil, err
	}
	if another != nil {
		return d.registration(key), nil
	}
	return api.Registered{}, d.gone(ctx, p, key)
}
