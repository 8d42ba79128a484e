// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"io"

	"github.com/wayleave/wayleave/examples/agent/internal/recording"
)

// recordingState is how the recording of what the agent sees is.
type recordingState struct {
	file string // empty if nothing is to be recorded
	err  error  // why it has ended
}

// record begins a recording for the next pipeline, if there is to be one, and returns what ends it.
// That there can be none is told, and keeps the agent from nothing.
func (d *Daemon) record() (w io.Writer, done func()) {
	path, limit := d.local.RecordFile, int64(d.local.RecordLimit)<<20
	if path == "" {
		return nil, func() {}
	}
	d.mu.Lock()
	d.recording = recordingState{file: path}
	d.mu.Unlock()
	file, err := recording.Create(path, limit)
	if err != nil {
		d.recordFailed(err)
		return nil, func() {}
	}
	return file, func() {
		if err := file.Close(); err != nil {
			d.recordFailed(err)
		}
	}
}

// recordFailed tells that the recording has ended before its time.
func (d *Daemon) recordFailed(err error) {
	d.mu.Lock()
	d.recording.err = err
	d.mu.Unlock()
	d.logger.Error("nothing more is recorded; all else goes on", "err", err)
	d.events.publish("recording", "", "has ended: "+err.Error())
}

func (d *Daemon) recordingNow() recordingState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recording
}

// recordingNote says, for those who look after the agent's health, that the recording has ended: no
// reason to restart the agent.
func (d *Daemon) recordingNote() string {
	if err := d.recordingNow().err; err != nil {
		return fmt.Sprintf("has ended: %v", err)
	}
	return ""
}
