// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"log/slog"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Config configures an Applier. It is a plain value.
type Config struct {
	// Family of the table. The zero value is ruleset's first family, inet.
	Family ruleset.Family
	// Name of the table, which must be ours alone: whatever is in it and not desired is removed. It must be given.
	Name string
	// NetNS is a file descriptor of the network namespace whose packets to judge, needed
	// only during New. Zero means the namespace of the thread that calls New.
	NetNS int
	// MaxBatch is the largest transaction in bytes. Zero means 64 MiB; smaller than 4 KiB is refused. Where the
	// kernel takes less of this process (net.core.wmem_max, without the rights to go beyond), that counts.
	MaxBatch int
	// Logger is told of every drift and of what is held back. Nil discards.
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
	return errors.Join(errs...)
}

// Stats counts what an Applier has done since New. It is a plain value.
type Stats struct {
	// Transactions that the kernel took, and their bytes.
	Transactions, Bytes uint64
	// Restarts counts transactions that were sent again because another process changed some ruleset at the same moment.
	Restarts uint64
	// Readings counts how often the table was read back.
	Readings uint64
	// Drifts counts the changes of our table by others, Repairs how often that was put right.
	Drifts, Repairs uint64
	// Refused counts transactions that the kernel refused.
	Refused uint64
	// Held is the number of objects that are held back at present.
	Held int
}

// Drift says that another process changed our table. It is a plain value.
type Drift struct {
	// PID and Process are the process that did it, as the kernel's first namespace of processes numbers it, and its name. They are
	// empty if that is not known.
	PID     uint32
	Process string
	// Generation of the ruleset that it led to, zero if that is not known.
	Generation uint32
	// Missed says that notifications were lost, so that it is not known whether our table was changed at all.
	Missed bool
}
