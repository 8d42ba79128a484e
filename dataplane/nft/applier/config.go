// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Config configures an Applier.
type Config struct {
	// Family of the table. The default is inet.
	Family ruleset.Family
	// Name of the table. Required. No other program may use the table, because the Applier removes
	// all objects in it that are not desired.
	Name string
	// NetNS is a file descriptor of the network namespace of the table, needed only during New.
	// Zero means the namespace of the thread that calls New.
	NetNS int
	// Shared lets other processes change the table. By default, from Linux 6.9 on, the Applier owns
	// the table: until Close, the kernel refuses the writes of all other processes. If a table has
	// no owner, the Applier repairs changes by other processes.
	Shared bool
	// MaxBatch limits the size of a transaction, in bytes. Zero means 64 MiB; less than 4 KiB is an
	// error. A process without the privilege to exceed net.core.wmem_max has a second limit, which
	// depends on this sysctl. The smaller limit applies.
	MaxBatch int
	// Epoch names a set, and the chains that reference this set. With them, the table detects
	// packets that may have used parts of both the old and the new state during a change. The zero
	// value means that the table does not detect such packets.
	Epoch ruleset.Epoch
	// Stages are the base chains that evaluate network policy before another base chain does. A
	// change may concern both a stage and later chains. Then a packet passes only if the old state
	// as a whole or the new state as a whole allows it. The default is no stages: during such a
	// change, a packet may pass although both states deny it.
	Stages []ruleset.Stage
	// Translations are the maps of destination NAT. While elements of a map change, new connections
	// that match the keys of these elements are dropped. While a table without an owner is
	// replaced, new connections that match any key are dropped.
	Translations []ruleset.Translation
	// BeforeWrite is called before each transaction, with the exceptions below. If it returns an
	// error, the transaction is not sent. The method that needs the transaction, such as Update,
	// then returns the error, or calls BeforeWrite again and retries. Close logs the error.
	// BeforeWrite is not called in Teardown, and not before a transaction that deletes a guard
	// table. It is also not called before a transaction that takes over a table whose owner is
	// gone. Such a takeover changes no object of the table. Nil allows every write.
	BeforeWrite func() error
	// Logger logs every repair of the table, and every object that is held back because the kernel
	// refuses it. Nil discards.
	Logger *slog.Logger
}

const (
	defaultBatch = 64 << 20
	leastBatch   = 4 << 10
)

func (c Config) withDefaults() Config {
	c.MaxBatch = cmp.Or(c.MaxBatch, defaultBatch)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.BeforeWrite == nil {
		c.BeforeWrite = func() error { return nil }
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("applier: Config.Name: required"))
	}
	if c.NetNS < 0 {
		errs = append(errs, fmt.Errorf("applier: Config.NetNS: %d is not a file descriptor", c.NetNS))
	}
	if c.MaxBatch < leastBatch {
		errs = append(errs, errors.New("applier: Config.MaxBatch: smaller than 4096"))
	}
	for _, t := range c.Translations {
		if t.Map == "" || len(t.Fields) == 0 {
			errs = append(errs, errors.New("applier: Config.Translations: Map and Fields: required"))
		}
	}
	for _, s := range c.Stages {
		if s.Chain == "" {
			errs = append(errs, errors.New("applier: Config.Stages: Chain: required"))
		}
	}
	if (c.Epoch.Set == "") != (len(c.Epoch.Chains) == 0) {
		errs = append(errs, errors.New("applier: Config.Epoch: set both Set and Chains, or neither"))
	}
	return errors.Join(errs...)
}

// Stats counts what an Applier has done since New.
type Stats struct {
	// Transactions is the number of committed transactions. Bytes is the sum of their sizes.
	Transactions, Bytes uint64
	// Restarts is the number of transactions that were sent again because another process changed a
	// table at the same moment.
	Restarts uint64
	// Readings is the number of times that the table was read back.
	Readings uint64
	// Drifts is the number of changes of our table by other processes. Repairs is the number of
	// repairs.
	Drifts, Repairs uint64
	// Refused is the number of transactions that the kernel refused.
	Refused uint64
	// Owned is set while the Applier owns the table, so that no other process can change it.
	Owned bool
	// NoGracePeriod is set if the kernel refuses membarrier(2). Then the Applier cannot wait for
	// packets that are under way. During a change, such a packet may use parts of two states.
	NoGracePeriod bool
	// Held is the number of objects that are held back now.
	Held int
}

// Drift is a change of our table by another process.
type Drift struct {
	// PID is the id of the process that changed the table, in the initial PID namespace. Process is
	// the name of this process. If the process is unknown, PID is 0 and Process is empty.
	PID     uint32
	Process string
	// Generation is the generation of the ruleset after the change; zero if unknown.
	Generation uint32
	// Missed is set if notifications were lost. Then it is not known whether our table changed.
	Missed bool
}
