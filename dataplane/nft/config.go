// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"log/slog"
)

// Config configures a Dataplane. It is a plain value.
type Config struct {
	// Renderer says what the table looks like: its name above all, which must be ours alone.
	Renderer RendererConfig
	// NetNS is a file descriptor of the network namespace whose packets to judge, needed
	// only during New. Zero means the namespace of the thread that calls New.
	NetNS int
	// Logger is told of every transaction. Nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.NetNS < 0 {
		return errors.New("nft: config: NetNS is no file descriptor")
	}
	return nil
}
