// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/wayleave/wayleave/kubernetes/convert"
)

const (
	// announceAgain is the interval, with some jitter, at which the keys are written again. This
	// restores keys that another process has removed. A patch that changes nothing costs little:
	// the server neither stores it nor sends it to watches. 1,000 nodes send three such requests a
	// second.
	announceAgain = 5 * time.Minute
	// announcePause is the minimum time between two requests. It limits the requests if another
	// process repeatedly writes other keys.
	announcePause = time.Second
	// announceTimeout limits one request.
	announceTimeout = 30 * time.Second
	// minBackoff and maxBackoff limit the time between two attempts after failures.
	minBackoff, maxBackoff = time.Second, time.Minute
	// jitter is the random part of a time, so that not all nodes send at once.
	jitter = 0.2
)

// announcer writes the WireGuard keys of the node to its Node. It is safe for concurrent use.
type announcer struct {
	client kubernetes.Interface
	node   string
	logger *slog.Logger
	wake   chan struct{} // has room for one

	mu   sync.Mutex
	keys string // "" if there are none yet
	err  error  // the error of the last attempt
}

func newAnnouncer(client kubernetes.Interface, node string, logger *slog.Logger) *announcer {
	return &announcer{client: client, node: node, logger: logger, wake: make(chan struct{}, 1)}
}

// set sets the keys, and does not wait until they are written.
func (a *announcer) set(keys string) {
	a.mu.Lock()
	a.keys = keys
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // run has not received the last token yet
	}
}

// problem returns the error of the last attempt to write the keys; nil if it succeeded.
func (a *announcer) problem() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// run writes the keys whenever they change, and again after each interval announceAgain, until ctx
// is done.
func (a *announcer) run(ctx context.Context) error {
	backoff, written := minBackoff, ""
	timer := time.NewTimer(announceAgain)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.wake:
		case <-timer.C:
		}
		a.mu.Lock()
		keys := a.keys
		a.mu.Unlock()
		if keys == "" {
			timer.Reset(announceAgain)
			continue
		}
		err := a.patch(ctx, keys)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.record(err)
		if err != nil {
			timer.Reset(wait.Jitter(backoff, jitter))
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		if keys != written {
			a.logger.Info("announced the WireGuard keys of the node", "source", Name, "keys", keys)
		}
		written, backoff = keys, minBackoff
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(announcePause):
		}
		timer.Reset(wait.Jitter(announceAgain, jitter))
	}
}

// record keeps the result of an attempt. It logs a failure when its reason changes.
func (a *announcer) record(err error) {
	a.mu.Lock()
	old := a.err
	a.err = err
	a.mu.Unlock()
	if err != nil && (old == nil || reason(old) != reason(err)) {
		a.logger.Warn("the WireGuard keys cannot be announced; other nodes use those of the Node", "source", Name,
			"err", err)
	}
}

// patch sets the annotation.
func (a *announcer) patch(ctx context.Context, keys string) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{convert.AnnotationWireguardKeys: keys},
	}})
	if err != nil {
		return err
	}
	if _, err := a.client.CoreV1().Nodes().Patch(
		ctx, a.node, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager},
	); err != nil {
		return fmt.Errorf("kube: patch Node %s: %w", a.node, err)
	}
	return nil
}

// fieldManager is the name of the agent in the managed fields of the Node.
const fieldManager = "wayleave-wireguard"

// AnnounceWireguard sets the WireGuard keys of this node. Run then writes them to the Node object.
// The parameter keys has the texts of the keys (see policy.WireguardKey.String), separated by
// commas. AnnounceWireguard does not wait until the keys are written.
func (a *API) AnnounceWireguard(keys string) { a.keys.set(keys) }

// WithdrawWireguard removes the WireGuard keys of this node from its Node object: it writes
// convert.NoWireguardKeys in their place. It does nothing if the node has no Node object. Do not
// use it together with AnnounceWireguard.
func (a *API) WithdrawWireguard(ctx context.Context) error {
	if err := a.keys.patch(ctx, convert.NoWireguardKeys); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// WireguardProblem returns why the WireGuard keys cannot be written; nil if there is no problem.
func (a *API) WireguardProblem() error { return a.keys.problem() }
