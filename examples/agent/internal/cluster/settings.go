// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// Layers are the settings in the shared store: at most one layer for all nodes, and at most one for
// this node.
type Layers struct {
	// Global has the settings for all nodes. The field Node has the settings for this node only.
	Global, Node []settings.Layer
}

// retryPause is the pause before the settings are read again at the start.
const retryPause = time.Second

// pollInterval is the time between two checks of a running request.
const pollInterval = 100 * time.Millisecond

// watchSettings reports the settings, and each change of them, until ctx is done.
func (c *Cluster) watchSettings(ctx context.Context) {
	now, ok := c.firstSettings(ctx)
	if !ok {
		return
	}
	close(c.settingsRead)
	for {
		next, err := c.store.WatchSettings(ctx, c.cfg.Node, now, func(err error) { c.reportProblem(now, err) })
		if err != nil {
			return // the error of ctx: the node's name was valid the first time
		}
		now = next
		c.cfg.Settings(layers(now, c.cfg.Node))
	}
}

// firstSettings reports and returns the settings at the start. If they cannot be read, there are no
// settings.
func (c *Cluster) firstSettings(ctx context.Context) (now etcd.Settings, ok bool) {
	for {
		now, err := c.readSettings(ctx)
		var value *etcd.ValueError
		switch {
		case err == nil:
			c.solved(settingsProblem)
			c.cfg.Settings(layers(now, c.cfg.Node))
			return now, true
		case ctx.Err() != nil:
			return now, false
		case errors.As(err, &value):
			c.reportProblem(etcd.Settings{}, err)
			return etcd.Settings{}, true
		}
		c.logProblem(settingsProblem, err)
		select {
		case <-ctx.Done():
			return now, false
		case <-time.After(retryPause):
		}
	}
}

// readSettings reads the settings. If no server can be reached, it logs the reason before the
// timeout.
func (c *Cluster) readSettings(ctx context.Context) (now etcd.Settings, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		now, err = c.store.Settings(ctx, c.cfg.Node)
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return now, err
		case <-ticker.C:
			if cause := c.cfg.Client.Unreachable(); cause != "" && !c.hasProblem(settingsProblem) {
				c.logProblem(settingsProblem, errors.New(cause))
			}
		}
	}
}

// reportProblem reports that the settings cannot be read. If err is nil, it reports that they can
// be read again, and have not changed.
func (c *Cluster) reportProblem(now etcd.Settings, err error) {
	var value *etcd.ValueError
	switch {
	case err == nil:
		c.solved(settingsProblem)
		c.cfg.Settings(layers(now, c.cfg.Node))
	case c.logProblem(settingsProblem, err) && errors.As(err, &value):
		c.cfg.Rejected(err)
		l := layers(now, c.cfg.Node)
		l.Global = append(l.Global, settings.Layer{
			Source: "etcd", Problems: []*settings.Problem{{Source: "etcd " + value.Key, Err: value.Err}},
		})
		c.cfg.Settings(l)
	}
}

// layers converts settings to layers.
func layers(s etcd.Settings, node string) (l Layers) {
	if s.Global != nil {
		l.Global = []settings.Layer{settings.Object("etcd settings/global", s.Global)}
	}
	if s.Node != nil {
		l.Node = []settings.Layer{settings.Object("etcd settings/node/"+node, s.Node)}
	}
	return l
}
