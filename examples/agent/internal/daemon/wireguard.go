// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// wireguardConfig returns the configuration of encryption; nil if traffic is not encrypted.
func (d *Daemon) wireguardConfig(s settings.Settings) *wireguard.Config {
	if !s.Wireguard {
		return nil
	}
	return &wireguard.Config{
		Devices: s.WireguardDevices(), MTU: uint32(s.WireguardMTU), KeyLifetime: s.WireguardKeyLifetime,
		HostEncryption: s.WireguardHostEncryption, UnencryptedHosts: s.WireguardUnencryptedPrefixes(),
		RequireEncryption: s.WireguardRequireEncryption, Announce: d.announce,
	}
}

// wireguardState is the state of encryption for the command agent status. It is safe for concurrent
// use.
type wireguardState struct {
	mu      sync.Mutex
	keys    []string // that a pipeline last announced
	removal error    // of the last attempt of a wireguardRemoval
}

func (w *wireguardState) setKeys(keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = keys
}

func (w *wireguardState) setRemoval(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removal = err
}

func (w *wireguardState) get() (keys []string, removal error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys, w.removal
}

// announce passes the keys to the source of the Kubernetes API, which writes them to the Node.
// Without the API, an administrator must write them to the node's resource.
func (d *Daemon) announce(keys []policy.WireguardKey) {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = k.String()
	}
	d.encryption.setKeys(texts)
	list := strings.Join(texts, ",")
	if d.kube != nil {
		d.kube.AnnounceWireguard(list)
		return
	}
	d.logger.Info("announce these WireGuard keys in the Node resource", "node", d.local.Node, "keys", list)
}

// wireguardStatus returns the state of encryption for the command agent status. It is nil if there
// are neither keys nor a failed removal.
func (d *Daemon) wireguardStatus() *api.Wireguard {
	keys, removal := d.encryption.get()
	if keys == nil && removal == nil {
		return nil
	}
	w := &api.Wireguard{Keys: keys, RemovalError: text(removal)}
	if keys != nil && d.kube != nil {
		w.Error = text(d.kube.WireguardProblem())
	}
	return w
}

// wireguardNote returns a note if WireGuard objects of an earlier run cannot be removed. The note
// appears in the health of the agent, and does not make the agent unhealthy.
func (d *Daemon) wireguardNote() string {
	if _, err := d.encryption.get(); err != nil {
		return objectsStay + ": " + err.Error()
	}
	return ""
}

// objectsStay says that a wireguardRemoval failed, and will try again.
const objectsStay = "the WireGuard objects of an earlier run stay for now"

// Times of a wireguardRemoval.
const (
	// withdrawalTime is how long to wait until other nodes have read that this node no longer has
	// keys.
	withdrawalTime = 5 * time.Second
	// minRemovalBackoff and maxRemovalBackoff limit the time between two attempts after failures.
	minRemovalBackoff, maxRemovalBackoff = time.Second, 5 * time.Minute
)

// removable has objects in the kernel that can be removed. A wireguard.Dataplane implements it.
type removable interface {
	PlanTeardown(context.Context) (string, error)
	Teardown(context.Context) error
	Close() error
}

// wireguardRemoval removes the WireGuard objects of an earlier process if this process does not
// encrypt. Packets that other nodes still encrypted would then be lost. Therefore it first removes
// the keys from the Node.
type wireguardRemoval struct {
	open func() (removable, error)
	// ready is closed when the first complete state is in the kernel. Nothing is removed before.
	ready <-chan struct{}
	// allow returns the error of a refused start.
	allow func() error
	// withdraw removes the keys from the Node. Nil means that there is no API.
	withdraw func(context.Context) error
	// report receives the result of each attempt.
	report func(error)
	logger *slog.Logger

	withdrawn bool
	last      string // the failure that was last logged
}

// newWireguardRemoval returns the removal for a daemon whose setting wireguard is false.
func (d *Daemon) newWireguardRemoval() *wireguardRemoval {
	r := &wireguardRemoval{
		open: func() (removable, error) {
			return pipeline.OpenWireguard(pipeline.Config{
				NetNS: d.cfg.NetNS, Table: d.local.Table, RouteProtocol: uint8(d.local.RouteProtocol),
				SysctlFile: d.local.SysctlFile(), Logger: d.logger,
			})
		},
		ready: d.inSync.done, allow: d.gate.allowWrite, report: d.encryption.setRemoval, logger: d.logger,
	}
	if d.kube != nil {
		r.withdraw = d.kube.WithdrawWireguard
	}
	return r
}

// run removes the objects, and then waits until ctx is done.
func (r *wireguardRemoval) run(ctx context.Context) error {
	select {
	case <-r.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for backoff := minRemovalBackoff; ; backoff = min(2*backoff, maxRemovalBackoff) {
		err := r.remove(ctx)
		r.report(err)
		if err == nil {
			<-ctx.Done()
			return ctx.Err()
		}
		if cause := err.Error(); ctx.Err() == nil && cause != r.last {
			r.last = cause
			r.logger.Error(objectsStay, "err", err)
		}
		if err := pause(ctx, backoff); err != nil {
			return err
		}
	}
}

// remove makes one attempt. If there are no objects, it does not change the Node, because another
// program may have announced keys there.
func (r *wireguardRemoval) remove(ctx context.Context) (err error) {
	objects, err := r.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	if plan, err := objects.PlanTeardown(ctx); plan == "" {
		return err
	}
	if err := r.allow(); err != nil {
		return err
	}
	if err := r.announceEnd(ctx); err != nil {
		return err
	}
	r.logger.Info("removing the WireGuard objects of an earlier run")
	if err := objects.Teardown(ctx); err != nil {
		return err
	}
	r.logger.Info("removed the WireGuard objects of an earlier run; traffic between nodes is not encrypted")
	return nil
}

// announceEnd removes the keys from the Node, and waits until the other nodes should have read
// that.
func (r *wireguardRemoval) announceEnd(ctx context.Context) error {
	if r.withdrawn {
		return nil
	}
	if r.withdraw == nil {
		r.logger.Warn("WireGuard objects of an earlier run are removed soon: remove the keys from the Node resource",
			"after", withdrawalTime)
	} else {
		r.logger.Info("withdrawing the WireGuard keys from the Node, because this node no longer encrypts")
		if err := r.withdraw(ctx); err != nil {
			return fmt.Errorf("withdraw the WireGuard keys: %w", err)
		}
		r.logger.Info("withdrew the WireGuard keys; waiting until other nodes have read that", "for", withdrawalTime)
	}
	if err := pause(ctx, withdrawalTime); err != nil {
		return err
	}
	r.withdrawn = true
	return nil
}

// pause waits for a time. Errors: the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// milestone is an event that happens once. It is safe for concurrent use.
type milestone struct {
	once sync.Once
	done chan struct{} // closed when it happens
}

// newMilestone returns a milestone that is not reached yet.
func newMilestone() *milestone { return &milestone{done: make(chan struct{})} }

// reach records that the event has happened. Later calls do nothing.
func (m *milestone) reach() { m.once.Do(func() { close(m.done) }) }
