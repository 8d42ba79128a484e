// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"log/slog"
)

// eventLogger returns a logger for the code under test, and a channel that gets a value after each
// record with the message. The channel keeps one value: a test that receives it checks the state
// and, if that is not as expected, receives again.
func eventLogger(message string) (*slog.Logger, <-chan struct{}) {
	logged := make(chan struct{}, 1)
	return slog.New(logEvent{Handler: slog.DiscardHandler, message: message, logged: logged}), logged
}

type logEvent struct {
	slog.Handler
	message string
	logged  chan<- struct{}
}

// Enabled returns true for every level, because the message may have any level.
func (logEvent) Enabled(context.Context, slog.Level) bool { return true }

func (e logEvent) Handle(_ context.Context, r slog.Record) error {
	if r.Message == e.message {
		select {
		case e.logged <- struct{}{}:
		default:
		}
	}
	return nil
}

func (e logEvent) WithAttrs([]slog.Attr) slog.Handler { return e }

func (e logEvent) WithGroup(string) slog.Handler { return e }
