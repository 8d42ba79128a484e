// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/cli"
)

// Who is at a terminal is told now and then, and the line is clean in the end; a file is told
// nothing.
func TestProgress(t *testing.T) {
	var errs bytes.Buffer
	p := newProgress(cli.Console{Err: &errs}, "work")
	p.report(1, 2)
	p.end()
	require.Empty(t, errs.String(), "not a terminal")

	p.next = time.Now().Add(-time.Second) // as at a terminal, after a while
	p.report(1, 2)
	p.report(2, 2) // too soon to be worth a word
	p.end()
	p.end()
	require.Equal(t, "\rwork: 1 of 2 \x1b[K\r\x1b[K", errs.String())
}
