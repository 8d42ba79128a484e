// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"log/slog"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Config configures an Applier.
type Config struct {
	// Family of the table. The zero value is ruleset's first family, inet.
	Family ruleset.Family
	// Name of the table, which must be ours alone: whatever is in it and not desired is removed. It
	// must be given.
	Name string
	// NetNS is a file descriptor of the network namespace whose packets to judge, needed
	// only during New. Zero means the namespace of the thread that calls New.
	NetNS int
	// Shared lets other processes change the table. By default the Applier owns it, from Linux 6.9
	// on: the kernel then refuses the writes of all other processes until Close. If a table has no
	// owner, the Applier repairs changes by other processes.
	Shared bool
	// MaxBatch is the largest transaction in bytes. Zero means 64 MiB; smaller than 4 KiB is refused. If the
	// kernel accepts less from this process (net.core.wmem_max, without the rights to exceed it), that applies.
	MaxBatch int
	// Epoch names the set and the chains by which packets become stale. Zero means none: a packet may
	// use parts of two states.
	Epoch ruleset.Epoch
	// Stages are the base chains with policy that packets meet before others. The default is none: during a
	// change of several base chains, a packet may pass although both states deny it.
	Stages []ruleset.Stage
	// Translations are the maps of destination NAT. While a map's elements change, new connections
	// to their keys drop. While a table without an owner is replaced, those to all keys drop.
	Translations []ruleset.Translation
	// BeforeWrite is called before each transaction of Apply, Update, Verify and Resync. If it fails,
	// that transaction and later ones are not sent, and the call returns its error. It is not called
	// for the takeover of a table whose owner is gone, which changes no object of the table, or for the
	// deletion of a guard table. Nil allows every write.
	BeforeWrite func() error
	// Logger logs every drift and every object that is held back. Nil discards.
	Logger *slog.Logger
}

const (
	defaultBatch = 64 << 20
	leastBatch   = 4 << 10
)

func (c Config) withDefaults() Config {
	if c.MaxBatch == 0 {
		c.MaxBatch = defaultBatch
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.BeforeWrite == nil {
		c.BeforeWrite = func() error { return nil }
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("applier: config: Name is missing"))
	}
	if c.NetNS < 0 {
		errs = append(errs, errors.New("applier: config: NetNS is no file descriptor"))
	}
	if c.MaxBatch < leastBatch {
		errs = append(errs, errors.New("applier: config: MaxBatch is smaller than 4096"))
	}
	for _, t := range c.Translations {
		if t.Map == "" || len(t.Fields) == 0 {
			errs = append(errs, errors.New("applier: config: Translations: Map and Fields must be given"))
		}
	}
	for _, s := range c.Stages {
		if s.Chain == "" {
			errs = append(errs, errors.New("applier: config: Stages: Chain must be given"))
		}
	}
	if (c.Epoch.Set == "") != (len(c.Epoch.Chains) == 0) {
		errs = append(errs, errors.New("applier: config: Epoch: Set and Chains must be given together"))
	}
	return errors.Join(errs...)
}

// Stats counts what an Applier has done since New.
type Stats struct {
	// Transactions counts the committed transactions, Bytes their bytes.
	Transactions, Bytes uint64
	// Restarts counts transactions that were sent again because another process changed a
	// table at the same moment.
	Restarts uint64
	// Readings counts how often the table was read back.
	Readings uint64
	// Drifts counts the changes of our table by other processes, Repairs the repairs of it.
	Drifts, Repairs uint64
	// Refused counts transactions that the kernel refused.
	Refused uint64
	// Owned is set while the Applier owns the table in the kernel: no other process can change it.
	Owned bool
	// NoGracePeriod is set if the kernel refuses membarrier(2), so that the Applier cannot wait for the
	// packets that are under way. During a change, such a packet may then be judged by parts of two
	// states.
	NoGracePeriod bool
	// Held is the number of objects that are held back at present.
	Held int
}

// Drift is a change of our table by another process.
type Drift struct {
	// PID and Process are the id, in the initial PID namespace, and the name of the process that
	// changed the table. They are empty if unknown.
	PID     uint32
	Process string
	// Generation of the ruleset after the change; zero if it is not known.
	Generation uint32
	// Missed is set if notifications were lost, so that our table may or may not have changed.
	Missed bool
}
