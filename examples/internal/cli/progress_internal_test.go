// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Who is at a terminal is told now and then, and the line is clean in the end; a file is told
// nothing.
func TestProgress(t *testing.T) {
	var errs bytes.Buffer
	p := NewProgress(Console{Err: &errs}, "work")
	p.Report(1, 2)
	p.End()
	require.Empty(t, errs.String(), "not a terminal")

	p.next = time.Now().Add(-time.Second) // as at a terminal, after a while
	p.Report(1, 2)
	p.Report(2, 2) // too soon to be worth a word
	p.End()
	p.End()
	require.Equal(t, "\rwork: 1 of 2 \x1b[K\r\x1b[K", errs.String())
}
