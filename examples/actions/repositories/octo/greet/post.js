console.log(`greet is done with ${process.env.INPUT_WHO}`)
