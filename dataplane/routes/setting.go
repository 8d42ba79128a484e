// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/internal/nsthread"
)

// procSys has the settings; what is below net is that of the network namespace of the thread that looks.
const procSys = "/proc/sys/"

func (s Setting) validate() error {
	if path.Clean(s.Path) != s.Path || !strings.HasPrefix(s.Path, "net/") {
		return fmt.Errorf("%w: no path below net/", ErrObject)
	}
	return nil
}

// keepSettings writes the settings that are not what they are to be. Those of an interface that does not exist wait for it.
func (p *pass) keepSettings() {
	s := p.k.settings
	var want []Setting
	planned := map[Setting]Setting{} // those of devices that are only planned, by what these will start with
	for _, o := range s.take() {
		link, exists := p.k.links.named(o.Interface)
		if !exists && o.Interface != "" {
			p.fail("find interface", o, fmt.Errorf("%w: %s", ErrNoInterface, o.Interface))
			s.stale[o.Path] = true
			continue
		}
		if p.blocked[o.Interface] { // a device that may be another's
			s.stale[o.Path] = true
			continue
		}
		if err := o.validate(); err != nil {
			p.fail("check sysctl", o, err)
			s.stale[o.Path] = true
			continue
		}
		if link.Index < 0 {
			start := o
			start.Path = strings.Replace(o.Path, "/"+o.Interface+"/", "/default/", 1)
			planned[start] = o
			o = start
		}
		want = append(want, o)
	}
	block := func(op string, failed map[Setting]error) {
		for _, o := range slices.SortedFunc(maps.Keys(failed), func(a, b Setting) int { return strings.Compare(a.Path, b.Path) }) {
			p.fail(op, o, failed[o])
			p.blocked[o.Interface] = p.blocked[o.Interface] || o.Interface != ""
			s.stale[o.Path] = true
		}
	}
	differ, failed := differingSettings(p.k.cfg.Namespace, want)
	block("read sysctl", failed)
	if !p.dry {
		block("set sysctl", writeSettings(p.k.cfg.Namespace, differ))
		return
	}
	for _, o := range differ {
		if later, ok := planned[o]; ok {
			o = later
		}
		p.say("sysctl -w " + o.String())
	}
}

// differingSettings returns those of the settings that are not there yet, and why the others could not be read.
func differingSettings(namespace int, want []Setting) (differ []Setting, failed map[Setting]error) {
	failed = eachSetting(namespace, want, func(s Setting) error {
		data, err := os.ReadFile(procSys + s.Path)
		if err == nil && strings.TrimSpace(string(data)) != s.Value {
			differ = append(differ, s)
		}
		return err
	})
	return differ, failed
}

// writeSettings writes settings, and returns why some could not be written.
func writeSettings(namespace int, settings []Setting) (failed map[Setting]error) {
	return eachSetting(namespace, settings, func(s Setting) error {
		file, err := os.OpenFile(procSys+s.Path, os.O_WRONLY, 0) // never created
		if err != nil {
			return err
		}
		_, err = file.WriteString(s.Value)
		return errors.Join(err, file.Close())
	})
}

// eachSetting calls do for each setting where procSys is that of the namespace, and returns the errors.
func eachSetting(namespace int, settings []Setting, do func(Setting) error) map[Setting]error {
	if len(settings) == 0 {
		return nil
	}
	failed := map[Setting]error{}
	each := func() error {
		for _, s := range settings {
			if err := do(s); err != nil {
				failed[s] = err
			}
		}
		return nil
	}
	if namespace == 0 {
		_ = each() // returns nil
		return failed
	}
	if err := nsthread.In(namespace, each); err != nil {
		for _, s := range settings {
			failed[s] = err
		}
	}
	return failed
}
