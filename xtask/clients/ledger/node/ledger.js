// Adds to counters at a rate until its input ends, through DataStax' driver as it comes, and then says how often it was told that it was
// done: ledger.js ADDRESS RATE WORKERS FIRST_ID
const { Client } = require('cassandra-driver');

const statement = 'UPDATE ledger.counts SET count = count + 1 WHERE id = ?';
const [address, ...numbers] = process.argv.slice(2);
const [rate, workers, first] = numbers.map(Number);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
let ended = false;

async function main() {
    const client = new Client({ contactPoints: [address], localDataCenter: 'datacenter1' });
    await client.connect();
    const acknowledged = new Array(workers).fill(0);
    const errors = {};
    const latencies = [];
    const interval = (1000 * workers) / rate;
    const begun = performance.now();
    async function work(worker) {
        let due = begun + (interval * worker) / workers;
        while (!ended) {
            await pause(Math.max(0, due - performance.now()));
            const sent = performance.now();
            try {
                await client.execute(statement, [first + worker], { prepare: true });
                acknowledged[worker] += 1;
            } catch (error) {
                const text = `${error.name}: ${error.message}`;
                errors[text] = (errors[text] || 0) + 1;
            }
            latencies.push(performance.now() - sent);
            due = Math.max(due + interval, performance.now());
        }
    }
    const working = acknowledged.map((_, worker) => work(worker));
    console.log('ready');
    process.stdin.resume();
    process.stdin.on('end', () => { ended = true; });
    await Promise.all(working);
    latencies.sort((a, b) => a - b);
    console.log(JSON.stringify({
        client: 'node',
        acknowledged,
        errors,
        p99_us: Math.round(latencies[Math.floor(latencies.length * 0.99)] * 1000),
        max_us: Math.round(latencies[latencies.length - 1] * 1000),
    }));
    await client.shutdown();
    process.exit(0);
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
