//go:build unix

package main

import (
	"fmt"

	"github.com/rungci/rung/bench/growth"
)

// fleetFigures are those of decisions about machines. They are times of this process alone.
var fleetFigures = []figure{
	{name: "a decision for 10,000 machines and 50,000 slots", unit: "ms", target: 10, measure: deciding},
	{name: "a simulated day of 1,000,000 jobs", unit: "s", target: 60, measure: simulating},
	{name: "1,000 machines to ready, over what their cloud takes", unit: "x", target: 1.5, measure: growing},
}

// deciding times what a fleet does about a job that ends and another that comes.
func deciding(*world) (float64, string, error) {
	took, err := growth.Decision()
	return took.Seconds() * 1000, "", err
}

// simulating times a day of jobs of two sizes.
func simulating(*world) (float64, string, error) {
	took, err := growth.Day()
	return took.Seconds(), "", err
}

// growing compares a fleet that 1,000 jobs are asked of with the bare calls: as many at once, and lists until all machines run.
func growing(*world) (float64, string, error) {
	bare, err := growth.Bare()
	if err != nil {
		return 0, "", err
	}
	fleet, err := growth.Fleet()
	return fleet.Seconds() / bare.Seconds(), fmt.Sprintf("%.1f s of %.1f s", fleet.Seconds(), bare.Seconds()), err
}
